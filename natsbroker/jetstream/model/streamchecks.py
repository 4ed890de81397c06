"""
The rules of a stream's configuration: defaults and refusals. The checks run in nats-server's order,
because the first one that fails is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from natsbroker.jetstream.model import errors
from natsbroker.jetstream.model.errors import JetStreamError
from natsbroker.jetstream.model.gojson import goQuoted
from natsbroker.jetstream.model.limits import (
    NO_ACCOUNT_LIMITS,
    NO_SERVER_LIMITS,
    ConfiguredLimits,
    JetStreamLimits,
)
from natsbroker.jetstream.model.members import JetStreamPeers
from natsbroker.jetstream.model.names import (
    MOST_DESCRIPTION,
    MOST_METADATA,
    MOST_NAME,
    hasPathSeparator,
    isSubsetSubject,
    isValidName,
    isValidSubjectText,
    metadataSize,
    subjectsOverlap,
)
from natsbroker.jetstream.model.sourcechecks import (
    checkCycles,
    checkMirror,
    checkPrefixes,
    checkSources,
    checkTransform,
    mappingText,
)
from natsbroker.jetstream.model.streamconfig import (
    DiscardPolicy,
    PersistMode,
    Placement,
    Republish,
    RetentionPolicy,
    StorageType,
    StreamConfig,
    StreamSource,
)
from natsbroker.steps import Steps, pieces
from natsbroker.subjects.collisionindex import CollisionIndex
from natsbroker.subjects.collisions import firstMeeting, firstOverlap
from natsbroker.subjects.functions import InvalidMapping
from natsbroker.subjects.transforms import SubjectTransform
from natsbroker.wire.durations import nanosecondsText

_SECOND: Final = 1_000_000_000
_SHORTEST: Final = _SECOND // 10
_DUPLICATE_WINDOW: Final = 120 * _SECOND
_MOST_REPLICAS: Final = 5
_UNLIMITED: Final = (
    "max_msgs",
    "max_msgs_per_subject",
    "max_bytes",
    "max_msg_size",
    "max_consumers",
)
_API_SUBJECTS: Final = ("$JS.>", "$JSC.>", "$NRG.>")
_RESERVED: Final = ("$", "*", ">")
_ODD_PAIRS: Final = 10_000
"""
The most pairs of a valid and an invalid subject that are compared. With more, the error names the
invalid subject.
"""


def _invalid(text: str) -> JetStreamError:
    return errors.STREAM_INVALID_CONFIG(err=text)


def _pedantic(text: str) -> JetStreamError:
    return errors.PEDANTIC(err=text)


def checkCreateRequest(config: StreamConfig, name: str) -> None:
    """
    Refuse keys that a request to create a stream must not have, before any other check.

    @param name: of the stream, as the subject of the request has it.
    @raise JetStreamError: if the request has such a key.
    """
    if config.name != name:
        raise errors.STREAM_MISMATCH()
    if hasPathSeparator(name):
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS()
    if config.sealed:
        raise _invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise _invalid("stream has no mirror but does have mirror direct")


class StreamChecker:
    """Completes and checks the configurations of one account's streams."""

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        account: JetStreamLimits = NO_ACCOUNT_LIMITS,
        server: ConfiguredLimits = NO_SERVER_LIMITS,
        members: JetStreamPeers | None = None,
        tier: int = 0,
        subjects: CollisionIndex | None = None,
        changed: set[str] | None = None,
        sized: Callable[[], Mapping[str, StreamConfig]] | None = None,
    ) -> None:
        """
        @param streams: all streams of the account.
        @param members: the brokers of the cluster, if there is one.
        @param tier: the number of replicas for which the account's limits hold; 0 for any number.
        @param subjects: an index of the streams' subjects from earlier checks. Only later changes
            are put into it.
        @param changed: the names of changed streams, which are put into the index and taken from
            this set. If it is not known, all streams are compared.
        @param sized: gives the streams that may have a C{max_bytes}; by default all.
        """
        self._tier = tier
        self._changed = changed
        self._sized = sized or (lambda: streams)
        self.subjects = subjects or CollisionIndex()
        self.members = members
        self.streams = streams
        self.account = account
        self.server = server

    def count(self, besides: str) -> int:
        """The number of streams that count against the account's limits, without the named one."""
        if self._tier:
            return sum(1 for _ in self._limited(self.streams, besides))
        return len(self.streams) - (besides in self.streams)

    def reserved(self, storage: StorageType, besides: str) -> int:
        """The bytes that these reserve of one kind of storage; 0 without a limit."""
        if self.account.total(storage) < 0:
            return 0
        sized = [config for config in self._limited(self._sized(), besides) if config.max_bytes > 0]
        return sum(config.max_bytes for config in sized if config.storage is storage)

    def _limited(self, streams: Mapping[str, StreamConfig], besides: str) -> Iterator[StreamConfig]:
        for name, config in streams.items():
            if name != besides and self._tier in (0, config.num_replicas):
                yield config

    def isTaken(self, subjects: Sequence[str], besides: str) -> Steps[bool]:
        """Whether a stream other than the named one takes some of the subjects."""
        yield from self.subjects.update(self.streams, self._changed)
        return (yield from self.subjects.meets(subjects, besides))

    def complete(self, config: StreamConfig, pedantic: bool = False) -> Steps[StreamConfig]:
        """
        Fill in the defaults and check the result.

        @param pedantic: whether filling in or correcting a value of a request is an error.
        @raise JetStreamError: at the first rule that is broken.
        """
        self._checkTexts(config)
        config = self._withLimits(config, pedantic)
        config = self._withDuplicateWindow(config, pedantic)
        self._checkFlags(config)
        config = self._withMarkers(config, pedantic)
        config = self._withSchedules(config, pedantic)
        self._checkPersistMode(config)
        config = yield from self._withOrigins(config, pedantic)
        config = yield from self._withSubjects(config)
        self._checkSize(config)
        self._checkSubjectTransform(config)
        config = yield from self._withRepublish(config, pedantic)
        if config.placement == Placement():
            config = replace(config, placement=None)
        if config.placement is not None and config.placement.preferred:
            raise _invalid("preferred server not permitted in placement")
        return config

    def _checkTexts(self, config: StreamConfig) -> None:
        if not isValidName(config.name):
            raise _invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
        if len(config.name.encode()) > MOST_NAME:
            raise _invalid(f"stream name is too long, maximum allowed is {MOST_NAME}")
        if len(config.description.encode()) > MOST_DESCRIPTION:
            raise _invalid(f"stream description is too long, maximum allowed is {MOST_DESCRIPTION}")
        if metadataSize(config.metadata) > MOST_METADATA:
            raise _invalid(f"stream metadata exceeds maximum size of {MOST_METADATA} bytes")

    def _withLimits(self, config: StreamConfig, pedantic: bool) -> StreamConfig:
        if config.num_replicas == 0:
            config = replace(config, num_replicas=1)
        if config.num_replicas > _MOST_REPLICAS:
            raise _invalid(f"maximum replicas is {_MOST_REPLICAS}")
        if config.num_replicas < 0:
            raise errors.REPLICAS_COUNT_CANNOT_BE_NEGATIVE()
        for key in _UNLIMITED:
            value = getattr(config, key)
            if pedantic and value < -1:
                raise _pedantic(f"{key} must be set to -1")
        config = replace(
            config,
            max_msgs=_orUnlimited(config.max_msgs),
            max_msgs_per_subject=_orUnlimited(config.max_msgs_per_subject),
            max_bytes=_orUnlimited(config.max_bytes),
            max_msg_size=_orUnlimited(config.max_msg_size),
            max_consumers=_orUnlimited(config.max_consumers),
        )
        if config.max_age < 0:
            raise _invalid("max age can not be negative")
        if 0 < config.max_age < _SHORTEST:
            raise _invalid("max age needs to be >= 100ms")
        return config

    def _withDuplicateWindow(self, config: StreamConfig, pedantic: bool) -> StreamConfig:
        most = self.server.duplicate_window
        if config.duplicate_window == 0 and config.mirror is None and not config.sources:
            window = _DUPLICATE_WINDOW
            if 0 < most < window:
                if pedantic:
                    raise _pedantic("duplicate window limits are higher than current limits")
                window = most
            if 0 < config.max_age < window:
                if pedantic:
                    raise _pedantic("duplicate window cannot be bigger than max age")
                window = config.max_age
            config = replace(config, duplicate_window=window)
        window = config.duplicate_window
        if window < 0:
            raise _invalid("duplicates window can not be negative")
        if 0 < config.max_age < window:
            raise _invalid("duplicates window can not be larger then max age")
        if 0 < most < window:
            limit = nanosecondsText(most)
            raise _invalid(f"duplicates window can not be larger then server limit of {limit}")
        if 0 < window < _SHORTEST:
            raise _invalid("duplicates window needs to be >= 100ms")
        return config

    def _checkFlags(self, config: StreamConfig) -> None:
        isNew = config.discard is DiscardPolicy.NEW
        if config.deny_purge and config.allow_rollup_hdrs:
            raise _invalid("roll-ups require the purge permission")
        if config.allow_msg_counter:
            if isNew:
                raise _invalid("counter stream cannot use discard new")
            if config.allow_msg_ttl:
                raise _invalid("counter stream cannot use message TTLs")
            if config.allow_msg_schedules:
                raise _invalid("counter stream cannot use message schedules")
            if config.retention is not RetentionPolicy.LIMITS:
                raise _invalid("counter stream can only use limits retention")
        if config.discard_new_per_subject:
            if not isNew:
                raise _invalid("discard new per subject requires discard new policy to be set")
            if config.max_msgs_per_subject <= 0:
                raise _invalid("discard new per subject requires max msgs per subject > 0")

    def _withMarkers(self, config: StreamConfig, pedantic: bool) -> StreamConfig:
        ttl = config.subject_delete_marker_ttl
        if ttl < 0:
            raise _invalid("subject delete marker TTL must not be negative")
        if ttl == 0:
            return config
        if ttl < _SECOND:
            raise _invalid("subject delete marker TTL must be at least 1 second")
        if pedantic and not config.allow_msg_ttl:
            raise _invalid("subject delete marker cannot be set if message TTLs are disabled")
        if pedantic and not config.allow_rollup_hdrs:
            raise _invalid("subject delete marker cannot be set if roll-ups are disabled")
        return replace(_withRollups(config), allow_msg_ttl=True)

    def _withSchedules(self, config: StreamConfig, pedantic: bool) -> StreamConfig:
        if not config.allow_msg_schedules:
            return config
        if config.discard is DiscardPolicy.NEW:
            raise _invalid("message scheduling cannot use discard new")
        if pedantic and not config.allow_rollup_hdrs:
            raise _invalid("message scheduling cannot be set if roll-ups are disabled")
        return _withRollups(config)

    def _checkPersistMode(self, config: StreamConfig) -> None:
        if config.persist_mode is not PersistMode.ASYNC:
            return
        if config.storage is not StorageType.FILE:
            raise _invalid("async persist mode is only supported on file storage")
        if config.num_replicas > 1:
            raise _invalid("async persist mode is not supported on replicated streams")
        if config.allow_atomic:
            raise _invalid("async persist mode is not supported with atomic batch publish")

    def _withOrigins(self, config: StreamConfig, pedantic: bool) -> Steps[StreamConfig]:
        """The configuration with what a mirror takes over from its origin."""
        origins: dict[str, StreamConfig] = {}
        if config.mirror is not None:
            yield from checkMirror(config, config.mirror)
            origin = self._originOf(config.mirror)
            if origin is not None:
                origins[origin.name] = origin
                if 0 < config.max_msg_size < origin.max_msg_size:
                    raise errors.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG()
                if pedantic and config.mirror_direct != origin.allow_direct:
                    raise _pedantic("origin stream has direct get set, mirror has it disabled")
                config = replace(config, mirror_direct=origin.allow_direct)
        if config.sources and config.allow_msg_schedules:
            raise errors.SOURCE_WITH_MSG_SCHEDULES()

        def checked(source: StreamSource) -> None:
            origin = self._originOf(source)
            if origin is not None:
                origins[origin.name] = origin
                if 0 < config.max_msg_size < origin.max_msg_size:
                    raise errors.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG()

        yield from checkSources(config.sources, checked)
        mirrors = [config.mirror] if config.mirror is not None else []
        subjects = chain.from_iterable(other.subjects for other in origins.values())
        yield from checkPrefixes([*mirrors, *config.sources], subjects)
        yield from checkCycles(config, self.streams.get)
        return config

    def _originOf(self, source: StreamSource) -> StreamConfig | None:
        return self.streams.get(source.name) if source.external is None else None

    def _withSubjects(self, config: StreamConfig) -> Steps[StreamConfig]:
        if not config.subjects:
            if config.mirror is None and not config.sources:
                return replace(config, subjects=(config.name,))
            return config
        overlap = yield from _firstOverlap(config.subjects)
        for some in pieces(list(enumerate(config.subjects))):
            for place, subject in some:
                if not isValidSubjectText(subject):
                    raise _invalid("invalid subject")
                if subject == ">":
                    if not config.no_ack:
                        raise _invalid("capturing all subjects requires no-ack to be true")
                    if config.num_replicas != 1:
                        raise _invalid("capturing all subjects requires replicas of 1")
                if not config.no_ack:
                    _checkReserved(subject)
                if overlap is not None and place == overlap[0]:
                    other = goQuoted(config.subjects[overlap[1]])
                    raise _invalid(f"subject {goQuoted(subject)} overlaps with {other}")
            yield
        return config

    def _checkSize(self, config: StreamConfig) -> None:
        most = self.account.maxStreamBytes(config.storage)
        if self.account.max_bytes_required and config.max_bytes <= 0:
            raise errors.STREAM_MAX_BYTES_REQUIRED()
        if 0 < most < config.max_bytes:
            raise errors.STREAM_MAX_STREAM_BYTES_EXCEEDED()

    def _checkSubjectTransform(self, config: StreamConfig) -> None:
        transform = config.subject_transform
        if transform is None:
            return
        if transform.src and not isValidSubjectText(transform.src):
            raise errors.STREAM_TRANSFORM_INVALID_SOURCE(err=f"invalid subject {transform.src}")
        try:
            checkTransform(transform.src, transform.dest)
        except InvalidMapping as error:
            raise errors.STREAM_TRANSFORM_INVALID_DESTINATION(err=mappingText(error)) from error

    def _withRepublish(self, config: StreamConfig, pedantic: bool) -> Steps[StreamConfig]:
        republish = config.republish
        if republish is None:
            return config
        if not republish.src:
            if pedantic:
                raise _pedantic("republish source can not be empty")
            republish = replace(republish, src=">")
        republish = _throughTransform(config, republish, pedantic)
        mine = [republish.dest.encode()] if republish.dest else []
        theirs = [subject.encode() for subject in config.subjects] if mine else []
        if (yield from firstMeeting(mine, theirs)) is not None:
            raise _invalid("stream configuration for republish destination forms a cycle")
        try:
            if republish.dest:
                SubjectTransform(republish.src.encode(), republish.dest.encode())
        except InvalidMapping as error:
            ends = f"from '{republish.src}' to '{republish.dest}'"
            raise _invalid(
                f"stream configuration for republish with transform {ends} not valid"
            ) from error
        return replace(config, republish=republish)


def _throughTransform(config: StreamConfig, republish: Republish, pedantic: bool) -> Republish:
    """
    The destination for a republish of everything under its own subject, in a stream that transforms
    its only subject: the transformed subject.
    """
    transform = config.subject_transform
    if (republish.src, republish.dest) != (">", ">") or transform is None:
        return republish
    if config.subjects != (transform.src,):
        return republish
    if pedantic:
        raise _pedantic("implicit republish based on subject transform")
    return replace(republish, src=transform.dest, dest=transform.dest)


def _firstOverlap(subjects: Sequence[str]) -> Steps[tuple[int, int] | None]:
    """
    The places of the first two subjects that overlap, unless there is an invalid subject before
    them.
    """
    valid: list[tuple[int, bytes]] = []
    odd: list[tuple[int, str]] = []
    for some in pieces(list(enumerate(subjects))):
        for place, subject in some:
            if isValidSubjectText(subject):
                valid.append((place, subject.encode()))
            else:
                odd.append((place, subject))
        yield
    overlap = yield from firstOverlap(valid)
    before = [place for place, _ in valid if odd and place < odd[0][0]]
    if len(before) * len(odd) > _ODD_PAIRS:
        return overlap
    for place in before:
        for other, pattern in odd if overlap is None or place <= overlap[0] else ():
            if (overlap is None or (place, other) < overlap) and _mayOverlap(
                pattern, subjects[place]
            ):
                overlap = place, other
        yield
    return overlap


def _mayOverlap(one: str, other: str) -> bool:
    """
    Whether two subjects overlap. The first one is invalid: nats-server compares such a subject up
    to its first C{>}, and its empty tokens match nothing.
    """
    tokens, others = one.split("."), other.split(".")
    if not {"*", ">"} & set(tokens):
        return _isInside(tokens, others)
    if not {"*", ">"} & set(others):
        return _isInside(others, tokens)
    shorter = min(tokens, others, key=len)
    if len(tokens) != len(others) and ">" not in shorter:
        return False
    pairs = zip(tokens, others, strict=False)
    return all(ours and (ours == theirs or {"*", ">"} & {ours, theirs}) for ours, theirs in pairs)


def _isInside(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    """Whether tokens without wildcards match others."""
    for place, wanted in enumerate(wide):
        if place >= len(narrow) or not wanted:
            return False
        if wanted == ">":
            return True
        if not narrow[place] or wanted not in ("*", narrow[place]):
            return False
    return len(narrow) == len(wide)


def _checkReserved(subject: str) -> None:
    """Raise L{JetStreamError} if the subject takes requests of the API or of the system."""
    if not subject.startswith(_RESERVED):
        return
    for reserved in _API_SUBJECTS:
        if subjectsOverlap(subject, reserved) and not isSubsetSubject(subject, "$JS.EVENT.>"):
            raise _invalid("subjects that overlap with jetstream api require no-ack to be true")
    if subjectsOverlap(subject, "$SYS.>") and not isSubsetSubject(subject, "$SYS.ACCOUNT.>"):
        raise _invalid("subjects that overlap with system api require no-ack to be true")


def _withRollups(config: StreamConfig) -> StreamConfig:
    """The configuration with roll-ups, which need the permission to purge."""
    if config.allow_rollup_hdrs:
        return config
    return replace(config, allow_rollup_hdrs=True, deny_purge=False)


def _orUnlimited(limit: int) -> int:
    return limit if limit > 0 else -1
