"""
The checks of mirrors, sources and subject transforms.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import goQuoted
from natsbroker.jetstream.model.names import (
    isLiteralSubject,
    isValidName,
    isValidSubjectText,
    subjectsOverlap,
)
from natsbroker.jetstream.model.streamconfig import (
    StreamConfig,
    StreamSource,
    SubjectTransformConfig,
)
from natsbroker.steps import PIECE, Steps, pieces
from natsbroker.subjects.collisions import firstInside, firstMeeting, firstOverlap
from natsbroker.subjects.functions import InvalidMapping, isCall
from natsbroker.subjects.transforms import SubjectTransform

FindStream = Callable[[str], StreamConfig | None]
"""Finds another stream of the account."""

_API_PREFIX = "$JS.API"
_INVALID_DESTINATION = "invalid mapping destination: invalid transform"
#: After looking at this many sources, each further stream is looked at once.
_ASKED = 10_000

_SPACE = re.compile(r"[\t\n\f\r ]")


def checkTransform(source: str, destination: str) -> None:
    """
    Check that a subject transform can be made. An empty source stands for every subject. An empty
    destination means no transform.

    @raise InvalidMapping: if it cannot be made.
    """
    if not destination:
        return
    _checkDestination(destination)
    SubjectTransform((source or ">").encode(), destination.encode())


def mappingText(error: InvalidMapping) -> str:
    """
    The error of a transform, in the API's words. If the subject is bad, the error does not name it.
    """
    return error.reason if error.reason == "invalid subject" else str(error)


def _checkDestination(destination: str) -> None:
    """Check the destination alone, without the functions that it calls."""
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
    Whether a mirror or source can be read through the consumer that it names, or names none. A
    named consumer decides where reading begins and which messages it brings.
    """
    consumer = source.consumer
    if consumer is None:
        return True
    isNarrowed = source.opt_start_seq or source.opt_start_time or source.filter_subject
    isAddressed = _isPublishSubject(consumer.deliver_subject)
    return isValidName(consumer.name) and isAddressed and not isNarrowed


def checkMirror(config: StreamConfig, mirror: StreamSource) -> Steps[None]:
    """
    Check that a mirror has none of the keys that mirrors must not have.

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
    yield from _checkMirrorTransforms(mirror.subject_transforms)
    if mirror.external is None and not isValidName(mirror.name):
        raise errors.MIRROR_INVALID_STREAM_NAME()


def _checkMirrorTransforms(transforms: Sequence[SubjectTransformConfig]) -> Steps[None]:
    colliding = yield from _firstColliding([transform.src for transform in transforms])
    for some in pieces(list(enumerate(transforms))):
        for place, transform in some:
            _checkSides(
                transform,
                errors.MIRROR_INVALID_SUBJECT_FILTER,
                errors.MIRROR_INVALID_TRANSFORM_DESTINATION,
            )
            if place == colliding:
                raise errors.MIRROR_OVERLAPPING_SUBJECT_FILTERS()
        yield


def _checkSides(
    transform: SubjectTransformConfig,
    badFilter: Callable[..., JetStreamError],
    badDestination: Callable[..., JetStreamError],
) -> None:
    """Check the transforms of a mirror or a source. Each kind has its own errors."""
    if transform.src and not isValidSubjectText(transform.src):
        raise badFilter(err=f"invalid subject {transform.src}")
    try:
        checkTransform(transform.src, transform.dest)
    except InvalidMapping as error:
        raise badDestination(err=mappingText(error)) from error


def _firstColliding(filters: Sequence[str]) -> Steps[int | None]:
    """
    The place of the first filter that overlaps with another. An empty filter overlaps only with
    another empty one, and with C{>}.
    """
    some = [(place, filter_.encode()) for place, filter_ in enumerate(filters) if filter_]
    overlap = yield from firstOverlap(some)
    places = [place for place, filter_ in enumerate(filters) if not filter_]
    if places and ">" in filters:
        places.append(filters.index(">"))
    candidates = [min(places)] if len(places) > 1 else []
    return min([*candidates, overlap[0]] if overlap else candidates, default=None)


def _isPublishSubject(subject: str) -> bool:
    return isValidSubjectText(subject) and isLiteralSubject(subject)


def sourceKey(source: StreamSource) -> tuple[str | None, ...]:
    """
    The key that tells a source from the others of a stream. As in nats-server, an empty prefix or
    consumer name differs from a missing one.
    """
    api = None if source.external is None else source.external.api
    consumer = None if source.consumer is None else source.consumer.name
    if not source.subject_transforms:
        return (source.name, api, consumer, source.filter_subject or ">", ">")
    pairs = [
        (transform.src or ">", transform.dest or ">") for transform in source.subject_transforms
    ]
    return (source.name, api, consumer, *[text for pair in pairs for text in pair])


def checkSources(
    sources: Sequence[StreamSource], checked: Callable[[StreamSource], None]
) -> Steps[None]:
    """
    Check the sources of a stream. None may be there twice.

    @param checked: called with each valid source.
    @raise JetStreamError: if one is wrong.
    """
    seen: set[tuple[str | None, ...]] = set()
    for place, source in enumerate(sources, 1):
        if not isValidName(source.name):
            raise errors.SOURCE_INVALID_STREAM_NAME()
        key = sourceKey(source)
        if key in seen:
            raise errors.SOURCE_DUPLICATE_DETECTED()
        seen.add(key)
        if source.filter_subject and source.subject_transforms:
            raise errors.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED()
        yield from _checkSourceTransforms(source.subject_transforms)
        if not _isReadable(source):
            raise errors.SOURCE_DURABLE_CONSUMER_CFG_INVALID()
        checked(source)
        if place % PIECE == 0:
            yield


def _checkSourceTransforms(transforms: Sequence[SubjectTransformConfig]) -> Steps[None]:
    for some in pieces(transforms):
        for transform in some:
            _checkSides(
                transform,
                errors.SOURCE_INVALID_SUBJECT_FILTER,
                errors.SOURCE_INVALID_TRANSFORM_DESTINATION,
            )
        yield
    # An empty filter lies within ">" only.
    filters = [transform.src for transform in transforms]
    named = [(place, filter_.encode()) for place, filter_ in enumerate(filters) if filter_]
    isInside = (yield from firstInside(named)) is not None
    if isInside or ("" in filters and ">" in filters):
        raise errors.SOURCE_OVERLAPPING_SUBJECT_FILTERS()


def checkPrefixes(sources: Iterable[StreamSource], subjects: Iterable[str]) -> Steps[None]:
    """
    Check the prefixes of external sources.

    @param subjects: of the streams of this account that are sources too.
    @raise JetStreamError: if a prefix leads back to this account.
    """
    external = [source.external for source in sources if source.external is not None]
    yield from _checkDelivery([origin.deliver for origin in external if origin.deliver], subjects)
    for some in pieces([origin.api for origin in external if origin.api]):
        for prefix in some:
            if not _isPublishSubject(prefix):
                raise errors.STREAM_INVALID_CONFIG(
                    err=f"stream external api prefix {goQuoted(prefix)} must be a valid subject"
                    " without wildcards"
                )
            if subjectsOverlap(prefix, _API_PREFIX):
                raise errors.STREAM_EXTERNAL_API_OVERLAP(prefix=prefix, subject=_API_PREFIX)
        yield


def _checkDelivery(prefixes: Sequence[str], subjects: Iterable[str]) -> Steps[None]:
    valid = list(takewhile(_isPublishSubject, prefixes))
    yield
    theirs = list(subjects) if valid else []
    place = yield from _firstLeadingBack(valid, theirs)
    if place is not None:
        prefix = valid[place]
        for some in pieces(theirs):
            for subject in some:
                if subjectsOverlap(subject, f"{prefix}.{subject}"):
                    raise errors.STREAM_EXTERNAL_DEL_PREFIX_OVERLAPS(prefix=prefix, subject=subject)
            yield
    if len(valid) < len(prefixes):
        raise errors.STREAM_INVALID_EXTERNAL_DELIVERY_SUBJ(prefix=prefixes[len(valid)])


def _firstLeadingBack(prefixes: Sequence[str], subjects: Sequence[str]) -> Steps[int | None]:
    """
    The place of the first prefix that changes one of the subjects into one that overlaps with it.
    This happens only to a subject that ends in C{>}. Its tokens must repeat those of the prefix,
    and then its own tokens, shifted by the length of the prefix.
    """
    split = [subject.split(".") for subject in dict.fromkeys(subjects) if subject[-1:] == ">"]
    wide = [tokens[:-1] for tokens in split if tokens[-1] == ">"]
    yield
    longest = max(map(len, wide), default=0)
    byLength: dict[int, list[tuple[int, str]]] = {}
    for place, prefix in enumerate(prefixes) if wide else ():
        length = min(prefix.count(".") + 1, longest)
        byLength.setdefault(length, []).append((place, prefix))
    least: list[int] = []
    for length, some in byLength.items():
        heads: list[bytes] = []
        for part in pieces(wide):
            heads += [
                ".".join([*words[:length], ">"]).encode()
                for words in part
                if not length or _agree(words[length:], words)
            ]
            yield
        # The token C{x} stands for the subject that follows the prefix.
        meeting = yield from firstMeeting([f"{prefix}.x".encode() for _, prefix in some], heads)
        least += () if meeting is None else (some[meeting][0],)
    return min(least, default=None)


def _agree(tokens: Sequence[str], others: Sequence[str]) -> bool:
    return all(
        one == other or "*" in (one, other) for one, other in zip(tokens, others, strict=False)
    )


def checkCycles(config: StreamConfig, findStream: FindStream) -> Steps[None]:
    """
    Check that no message can come back to the stream through sources and mirrors. A stream that
    several others read from is visited as often as in nats-server, up to a limit.

    @raise JetStreamError: if one can.
    """
    waiting, visited, asked = deque([config]), set[str](), 0
    while waiting:
        stream = waiting.popleft()
        if stream.name in visited and asked > _ASKED:
            continue
        visited.add(stream.name)
        asked += 1 + len(stream.sources)
        filters: list[str] = []
        for some in pieces(stream.sources):
            for source in some:
                if source.external is not None:
                    continue
                if source.name in visited:
                    filters.append(source.filter_subject)
                elif (following := findStream(source.name)) is not None:
                    waiting.append(following)
            yield
        if filters and (yield from _takes(stream.subjects, filters)):
            raise errors.STREAM_INVALID_CONFIG(err="detected cycle")
        if stream.mirror is not None and stream.mirror.external is None:
            if stream.mirror.name in visited:
                raise errors.STREAM_INVALID_CONFIG(err="detected cycle")
            if (origin := findStream(stream.mirror.name)) is not None:
                waiting.append(origin)


def _takes(subjects: Iterable[str], filters: Sequence[str]) -> Steps[bool]:
    """Whether one of the filters matches one of the subjects; an empty filter counts as none."""
    if "" in filters or (">" in filters and "" in subjects):
        return True
    theirs = [subject.encode() for subject in subjects if subject]
    meeting = yield from firstMeeting([filter_.encode() for filter_ in filters], theirs)
    return meeting is not None


def checkFilters(config: StreamConfig) -> None:
    """
    Check the filters of mirrors and sources. nats-server does so last, with error texts of its own.

    @raise JetStreamError: if one is no subject.
    """
    named = [(config.mirror, "the mirror", " ")] if config.mirror else []
    named += [(source, "the source", ": ") for source in config.sources]
    for source, whose, between in named:
        if source.filter_subject and not isValidSubjectText(source.filter_subject):
            text = f"subject filter '{source.filter_subject}' for {whose}{between}invalid subject"
            raise _created(text)


def _created(text: str) -> JetStreamError:
    return errors.STREAM_CREATE(err=text)
