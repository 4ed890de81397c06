"""
The checks of mirrors, sources and subject transforms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import goQuoted
from natsbroker.jetstream.model.names import (
    isLiteralSubject,
    isSubsetSubject,
    isValidName,
    isValidSubjectText,
    subjectsOverlap,
)
from natsbroker.jetstream.model.streamconfig import (
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.subjects.functions import InvalidMapping, isCall
from natsbroker.subjects.transforms import SubjectTransform

FindStream = Callable[[str], StreamConfig | None]
"""Finds another stream of the account."""

_API_PREFIX = "$JS.API"
_INVALID_DESTINATION = "invalid mapping destination: invalid transform"
_SPACE = re.compile(r"[\t\n\f\r ]")


def checkTransform(source: str, destination: str) -> None:
    """
    Check that a subject transform can be made. An empty source is every subject, an empty
    destination is no transform.

    @raise InvalidMapping: if it cannot be made.
    """
    if not destination:
        return
    _checkDestination(destination)
    SubjectTransform((source or ">").encode(), destination.encode())


def mappingText(error: InvalidMapping) -> str:
    """
    @return: what is wrong with a transform, as the API says it: without the subject if that is bad.
    """
    return error.reason if error.reason == "invalid subject" else str(error)


def _checkDestination(destination: str) -> None:
    """
    Check the destination for itself, but for the functions that it calls.
    """
    isLast = False
    for token in destination.split("."):
        if not token or isLast:
            where = f" in {token}" if token else ""
            raise InvalidMapping(f"{_INVALID_DESTINATION}{where}")
        if isCall(token.encode()):
            continue
        if token == ">":
            isLast = True
        elif _SPACE.search(token):
            raise InvalidMapping(_INVALID_DESTINATION)


def _isReadable(source: StreamSource) -> bool:
    """
    Tell whether a mirror or source can be read through the consumer that it names, if it names
    one. Where that begins, and what it delivers, is then said by the consumer alone.
    """
    consumer = source.consumer
    if consumer is None:
        return True
    isNarrowed = source.opt_start_seq or source.opt_start_time or source.filter_subject
    isAddressed = _isPublishSubject(consumer.deliver_subject)
    return isValidName(consumer.name) and isAddressed and not isNarrowed


def checkMirror(config: StreamConfig, mirror: StreamSource) -> None:
    """
    Check what a mirror may not have.

    @raise JetStreamError: if it has it.
    """
    for isThere, row in (
        (config.first_seq > 0, errors.MIRROR_WITH_FIRST_SEQ),
        (config.subjects, errors.MIRROR_WITH_SUBJECTS),
        (config.sources, errors.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, errors.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, errors.MIRROR_WITH_ATOMIC_PUBLISH),
        (config.allow_batched, errors.MIRROR_WITH_BATCH_PUBLISH),
        (config.allow_msg_schedules, errors.MIRROR_WITH_MSG_SCHEDULES),
        (not _isReadable(mirror), errors.MIRROR_DURABLE_CONSUMER_CFG_INVALID),
        (
            mirror.filter_subject and mirror.subject_transforms,
            errors.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED,
        ),
    ):
        if isThere:
            raise row()
    if config.subject_delete_marker_ttl > 0:
        raise errors.STREAM_INVALID_CONFIG(err="subject delete markers forbidden on mirrors")
    _checkMirrorTransforms(mirror.subject_transforms)
    if mirror.external is None and not isValidName(mirror.name):
        raise errors.MIRROR_INVALID_STREAM_NAME()


def _checkMirrorTransforms(transforms: Sequence[SubjectTransformConfig]) -> None:
    for place, each in enumerate(transforms):
        if each.src and not isValidSubjectText(each.src):
            raise errors.MIRROR_INVALID_SUBJECT_FILTER(err=f"invalid subject {each.src}")
        try:
            checkTransform(each.src, each.dest)
        except InvalidMapping as error:
            raise errors.MIRROR_INVALID_TRANSFORM_DESTINATION(err=mappingText(error)) from error
        others = [*transforms[:place], *transforms[place + 1 :]]
        if any(_collide(each.src, other.src) for other in others):
            raise errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS()


def _collide(one: str, other: str) -> bool:
    """
    Tell whether two filters overlap. An empty one overlaps with nothing but itself and C{>}.
    """
    if one and other:
        return subjectsOverlap(one, other)
    return one == other or ">" in (one, other)


def _isPublishSubject(subject: str) -> bool:
    return isValidSubjectText(subject) and isLiteralSubject(subject)


def sourceKey(source: StreamSource) -> tuple[str | None, ...]:
    """
    @return: what tells a source from the others of a stream. An empty prefix, or an empty name of
        a consumer, is another than none, as for nats-server.
    """
    api = None if source.external is None else source.external.api
    consumer = None if source.consumer is None else source.consumer.name
    if not source.subject_transforms:
        return (source.name, api, consumer, source.filter_subject or ">", ">")
    pairs = [(each.src or ">", each.dest or ">") for each in source.subject_transforms]
    return (source.name, api, consumer, *[text for pair in pairs for text in pair])


def checkedSources(sources: Sequence[StreamSource | None]) -> Iterator[StreamSource]:
    """
    Check each source, and that none is there twice.

    @return: the sources one by one, each when it has been checked.
    @raise JetStreamError: if one is wrong.
    """
    seen: set[tuple[str | None, ...]] = set()
    for source in sources:
        if source is None or not isValidName(source.name):
            raise errors.SOURCE_INVALID_STREAM_NAME()
        key = sourceKey(source)
        if key in seen:
            raise errors.SOURCE_DUPLICATE_DETECTED()
        seen.add(key)
        if source.filter_subject and source.subject_transforms:
            raise errors.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED()
        _checkSourceTransforms(source.subject_transforms)
        if not _isReadable(source):
            raise errors.SOURCE_DURABLE_CONSUMER_CFG_INVALID()
        yield source


def _checkSourceTransforms(transforms: Sequence[SubjectTransformConfig]) -> None:
    for each in transforms:
        if each.src and not isValidSubjectText(each.src):
            raise errors.SOURCE_INVALID_SUBJECT_FILTER(err=f"invalid subject {each.src}")
        try:
            checkTransform(each.src, each.dest)
        except InvalidMapping as error:
            raise errors.SOURCE_INVALID_TRANSFORM_DESTINATION(err=mappingText(error)) from error
    for place, each in enumerate(transforms):
        others = [*transforms[:place], *transforms[place + 1 :]]
        if any(_isInside(each.src, other.src) for other in others):
            raise errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS()


def _isInside(narrow: str, wide: str) -> bool:
    """
    Tell whether a filter is part of another. An empty one is part of C{>} only.
    """
    if narrow and wide:
        return isSubsetSubject(narrow, wide)
    return wide == ">"


def checkPrefixes(sources: Iterable[StreamSource], subjects: Iterable[str]) -> None:
    """
    Check the prefixes of external sources.

    @param subjects: of the streams of this account that are sources too.
    @raise JetStreamError: if a prefix leads back to this account.
    """
    external = [each.external for each in sources if each.external is not None]
    for prefix in [each.deliver for each in external if each.deliver]:
        if not _isPublishSubject(prefix):
            raise errors.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ(prefix=prefix)
        for subject in subjects:
            if subjectsOverlap(subject, f"{prefix}.{subject}"):
                raise errors.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS(prefix=prefix, subject=subject)
    for prefix in [each.api for each in external if each.api]:
        if not _isPublishSubject(prefix):
            raise errors.STREAM_INVALID_CONFIG(
                err=f"stream external api prefix {goQuoted(prefix)} must be a valid subject"
                " without wildcards"
            )
        if subjectsOverlap(prefix, _API_PREFIX):
            raise errors.STREAM_EXTERNAL_API_OVERLAP(prefix=prefix, subject=_API_PREFIX)


def checkCycles(config: StreamConfig, findStream: FindStream) -> None:
    """
    Check that no message can come back to the stream through sources and mirrors.

    @raise JetStreamError: if one can.
    """
    waiting, visited = [config], set()
    while waiting:
        stream = waiting.pop(0)
        visited.add(stream.name)
        for source in stream.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _takes(stream.subjects, source.filter_subject):
                    raise errors.STREAM_INVALID_CONFIG(err="detected cycle")
            elif (found := findStream(source.name)) is not None:
                waiting.append(found)
        if stream.mirror is not None and stream.mirror.external is None:
            if stream.mirror.name in visited:
                raise errors.STREAM_INVALID_CONFIG(err="detected cycle")
            if (origin := findStream(stream.mirror.name)) is not None:
                waiting.append(origin)


def _takes(subjects: Iterable[str], filter_: str) -> bool:
    return not filter_ or any(_collide(each, filter_) for each in subjects)


def checkFilters(config: StreamConfig) -> None:
    """
    Check the filters of mirrors and sources. nats-server does so last, with texts of its own.

    @raise JetStreamError: if one is no subject.
    """
    named = [(config.mirror, "the mirror", " ")] if config.mirror else []
    named += [(each, "the source", ": ") for each in config.sources]
    for source, whose, between in named:
        if source.filter_subject and not isValidSubjectText(source.filter_subject):
            text = f"subject filter '{source.filter_subject}' for {whose}{between}invalid subject"
            raise _created(text)


def _created(text: str) -> JetStreamError:
    return errors.STREAM_CREATE(err=text)
