"""
Tests for L{natsbroker.config.keys.streaming}.
"""

from __future__ import annotations

import pytest

from natsbroker.config.keys.streaming import STORE_LIMITS, STREAMING

SPELLINGS = """
    id cid cluster_id discover_prefix st store_type store storetype dir datastore sd stan_debug
    sv stan_trace ns nats_server nats_server_url credentials secure tls limits store_limits
    storelimits file file_options sql sql_options hbi hb_interval server_to_client_hb_interval hbt
    hb_timeout server_to_client_hb_timeout hbf hb_fail_count server_to_client_hb_fail_count
    ft_group ft_group_name partitioning cluster syslog_name encrypt encryption_cipher
    encryption_key username user password pass token nkey_seed_file replace_durable
    replace_durables replace_duplicate_durable replace_duplicate_durables
"""

LIMITS = """
    mc max_channels maxchannels channels channels_limits channelslimits per_channel
    per_channel_limits msu max_subs max_subscriptions maxsubscriptions mm max_msgs maxmsgs max_count
    maxcount mb max_bytes maxbytes ma max_age maxage mi max_inactivity maxinactivity
"""


@pytest.mark.parametrize("spelling", SPELLINGS.split())
def test_spellings(spelling: str) -> None:
    """Every spelling that nats-streaming-server reads is known, in any case."""
    assert STREAMING.canonical(spelling.upper()) is not None


@pytest.mark.parametrize("spelling", LIMITS.split())
def test_limits(spelling: str) -> None:
    """And so is every spelling of a limit."""
    assert STORE_LIMITS.canonical(spelling) is not None
