"""
The fields of a consumer's configuration.
"""

from __future__ import annotations

from dataclasses import fields

from natsbroker.jetstream.model.consumerconfig import AckPolicy, ConsumerConfig, DeliverPolicy

_WIRE = [
    "durable_name",
    "name",
    "description",
    "deliver_policy",
    "opt_start_seq",
    "opt_start_time",
    "ack_policy",
    "ack_wait",
    "max_deliver",
    "backoff",
    "filter_subject",
    "filter_subjects",
    "replay_policy",
    "rate_limit_bps",
    "sample_freq",
    "max_waiting",
    "max_ack_pending",
    "flow_control",
    "headers_only",
    "max_batch",
    "max_expires",
    "max_bytes",
    "deliver_subject",
    "deliver_group",
    "idle_heartbeat",
    "inactive_threshold",
    "num_replicas",
    "mem_storage",
    "direct",
    "sourcing",
    "metadata",
    "pause_until",
    "priority_groups",
    "priority_policy",
    "priority_timeout",
]


def test_fieldsAreJSONKeys() -> None:
    """The fields of a consumer's configuration are the keys of the JSON, in the same order."""
    assert [field.name for field in fields(ConsumerConfig)] == _WIRE


def test_enumerationsAreText() -> None:
    """
    Policies compare equal to their names in JSON. The default acknowledgement policy is C{none}.
    """
    assert ConsumerConfig().ack_policy == "none"
    assert AckPolicy("flow_control") is AckPolicy.FLOW_CONTROL
    assert ConsumerConfig().deliver_policy is DeliverPolicy.ALL
