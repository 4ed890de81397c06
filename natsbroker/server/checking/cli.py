"""C{natsbroker check}: what is wrong with a configuration, or with a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from natsbroker.config.errors import ConfigErrors
from natsbroker.config.goflags import FlagError, FlagType, notUnderstood, takeFlags
from natsbroker.interfaces.records import StoreError

if TYPE_CHECKING:
    from natsbroker.server.checking.configuration import ConfigurationReport
    from natsbroker.server.checking.store import StoreReport
    from natsbroker.storage.lmdb.encryption.keyring import Encryption

FINE, FOUND, CANNOT_CHECK = 0, 1, 2
"""Exit codes: nothing to report; something is wrong; it cannot be found out."""

HELP = """\
Usage: natsbroker check --config FILE [--strict] [--json]
       natsbroker check --store DIR [--config FILE] [--json]

check --config reports every error of a configuration, with its place: the errors that -t finds,
files and folders that are missing or may not be used, ports that collide, and exports and imports
that do not fit together. It also reports the warnings of a start, such as that of an address which
is open to the network without a login. Run it as the user that runs the broker. Nothing is started
or changed.

check --store reads a store completely, without changing it, and verifies each record. It prints the
streams and channels, and the sequences of damaged records. No broker may have the store open. DIR
is the folder with the file STORE. JetStream's is the folder "jetstream" in store_dir. If the store
is encrypted, FILE is the configuration with its key; nothing else of FILE is looked at.

If the structure of the database is damaged, a copy of the store is made in the folder for temporary
files (TMPDIR) and repaired there, to show what the start of a broker would save and lose.

    -c, --config <file>  the configuration
    --strict             exit with code 1 for warnings alone, too
    --store <dir>        the folder of the store
    --json               print one JSON object

The exit code is 0 without errors, 1 with errors, and 2 if the check cannot be done. Without
--strict, warnings are not errors.
"""

_FLAGS = {
    "c": FlagType.STRING,
    "config": FlagType.STRING,
    "store": FlagType.STRING,
    "strict": FlagType.BOOLEAN,
    "json": FlagType.BOOLEAN,
    "h": FlagType.BOOLEAN,
    "help": FlagType.BOOLEAN,
}


def main(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    try:
        given, others = takeFlags(arguments, _FLAGS)
        if given.get("h") or given.get("help"):
            stdout.write(HELP)
            return FINE
        if others:
            raise notUnderstood(others, _FLAGS)
        configuration = str(given.get("config") or given.get("c") or "")
        report = _report(configuration, str(given.get("store") or ""), environment)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}", stderr)
    except (FlagError, StoreError, ConfigErrors) as error:
        return _failed(str(error), stderr)
    text = json.dumps(report.toJSON()) if given.get("json") else "\n".join(report.lines())
    print(text, file=stdout)
    isFine = report.isFine if given.get("strict") else report.isRight
    return FINE if isFine else FOUND


def _failed(why: str, stderr: TextIO) -> int:
    print(f"natsbroker check: {why}", file=stderr)
    return CANNOT_CHECK


def _report(
    configuration: str, store: str, environment: Mapping[str, str]
) -> ConfigurationReport | StoreReport:
    if not (configuration or store):
        raise FlagError("either --config FILE or --store DIR is needed")
    if store:
        from natsbroker.server.checking.store import storeReport

        return storeReport(Path(store), _encryptionIn(configuration, environment))
    from natsbroker.server.checking.configuration import configurationReport

    return configurationReport(configuration, environment)


def _encryptionIn(configuration: str, environment: Mapping[str, str]) -> Encryption | None:
    if not configuration:
        return None
    from natsbroker.config.files import readText
    from natsbroker.jetstream.composition import encryptionOf
    from natsbroker.server.configuration.build import inspectFile

    readText(configuration)
    return encryptionOf(inspectFile(configuration, environment).settings.jetstream)
