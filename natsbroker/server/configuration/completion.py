"""C{natsbroker completion SHELL}: completion for bash, zsh or fish, made of the table of flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from natsbroker.config.flags import Suggestion, commands, suggestions
from natsbroker.server.configuration.commandline import SIGNALS

_USAGE = """\
Usage: natsbroker completion bash|zsh|fish

Prints a script that makes the shell complete natsbroker's commands, options and file names:

    bash    source <(natsbroker completion bash)
    zsh     source <(natsbroker completion zsh)
    fish    natsbroker completion fish | source
"""

_CHOICES = {"what": SIGNALS}
"""Placeholder of a value -> the values that there are."""

Commands = Mapping[str, Sequence[str]]


def main(arguments: Sequence[str], stdout: TextIO, stderr: TextIO, jobs: Sequence[str] = ()) -> int:
    """C{jobs} are the words that can stand behind C{natsbroker spark}."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        stdout.write(_USAGE)
        return 0
    if len(arguments) != 1 or arguments[0] not in _SCRIPTS:
        stderr.write(_USAGE)
        print(f"natsbroker completion: there is no {' '.join(arguments)!r}", file=stderr)
        return 2
    words = {**commands(), "spark": jobs, "completion": tuple(_SCRIPTS)}
    stdout.write(_SCRIPTS[arguments[0]](words, list(suggestions())))
    return 0


_BASH = """\
# bash completion for natsbroker
_natsbroker() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} IFS=$'\\n'
    # Bash takes --flag=value for three words.
    if [[ $word == = ]]; then word=
    elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    COMPREPLY=()
    case ${{COMP_WORDS[1]}} in
{commands}
    esac
    case $before in
{values}
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W $'{flags}' -- "$word")) ;;
        *) (( COMP_CWORD > 1 )) || COMPREPLY=($(compgen -W $'{words}' -- "$word")) ;;
    esac
}}
_natsbroker_files() {{
    # Without compopt, as in bash 3, names have no slash added.
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$word"))
}}
complete -F _natsbroker natsbroker
"""


def _bash(words: Commands, flags: Sequence[Suggestion]) -> str:
    cases = [
        f"        {name})\n            if [[ $COMP_CWORD == 2 || $word == -* ]]; then "
        f"COMPREPLY=($(compgen -W $'{_lines(below)}' -- \"$word\")); return; fi\n"
        "            if (( COMP_CWORD > 2 )); then _natsbroker_files -f; return; fi ;;"
        for name, below in words.items()
    ]
    values = [
        f"        {'|'.join(flag.spellings)}) {_bashValue(flag.value)}; return ;;"
        for flag in flags
        if flag.value
    ]
    return _BASH.format(
        commands="\n".join(cases),
        values="\n".join(values),
        flags=_lines([spelling for flag in flags for spelling in flag.spellings]),
        words=_lines(list(words)),
    )


def _lines(words: Sequence[str]) -> str:
    return "\\n".join(words)


def _bashValue(placeholder: str) -> str:
    if placeholder in _CHOICES:
        return f"COMPREPLY=($(compgen -W $'{_lines(_CHOICES[placeholder])}' -- \"$word\"))"
    kinds = {"file": "-f", "dir": "-d"}
    return f"_natsbroker_files {kinds[placeholder]}" if placeholder in kinds else ":"


_ZSH = """\
#compdef natsbroker
_natsbroker() {{
    case $words[2] in
{commands}
    esac
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        compadd -- {words}
        return
    fi
    _arguments \\
{flags}
}}
# Autoloaded from a folder of $fpath, this file is the function.
if [[ $funcstack[1] == _natsbroker ]]; then
    _natsbroker "$@"
else
    compdef _natsbroker natsbroker
fi
"""


def _zsh(words: Commands, flags: Sequence[Suggestion]) -> str:
    cases = [
        f"        {name})\n            if [[ $CURRENT == 3 || $words[CURRENT] == -* ]]; then "
        f"compadd -- {' '.join(below)}; return; fi\n"
        "            if (( CURRENT > 3 )); then _files; return; fi ;;"
        for name, below in words.items()
    ]
    rows = [f"        {_zshNames(flag.spellings)}{_escaped(_zshText(flag))}" for flag in flags]
    return _ZSH.format(commands="\n".join(cases), words=" ".join(words), flags=" \\\n".join(rows))


def _zshNames(spellings: Sequence[str]) -> str:
    if len(spellings) == 1:
        return spellings[0]
    return f"'({' '.join(spellings)})'{{{','.join(spellings)}}}"


def _zshText(flag: Suggestion) -> str:
    meaning = flag.meaning
    for character in "\\[]:":
        meaning = meaning.replace(character, f"\\{character}")
    if not flag.value:
        return f"[{meaning}]"
    kinds = {"file": "_files", "dir": "_files -/"}
    choices = " ".join(_CHOICES.get(flag.value, ()))
    action = f"({choices})" if choices else kinds.get(flag.value, "")
    return f"[{meaning}]:{flag.value}:{action}"


def _fish(words: Commands, flags: Sequence[Suggestion]) -> str:
    start = "complete -c natsbroker"
    names = " ".join(words)
    noCommand = f"-n 'not __fish_seen_subcommand_from {names}'"
    lines = ["# fish completion for natsbroker", f"{start} -f"]
    lines += [f"{start} -n __fish_use_subcommand -a '{names}'"]
    for name, below in words.items():
        chosen = f"__fish_seen_subcommand_from {name}"
        plain = " ".join(word for word in below if not word.startswith("-"))
        hasWord = f"{chosen}; and __fish_seen_subcommand_from {plain}" if plain else chosen
        if plain:
            isMissing = f"{chosen}; and not __fish_seen_subcommand_from {plain}"
            lines += [f"{start} -n '{isMissing}' -a '{plain}'"]
        lines += [f"{start} -n '{hasWord}' -F"]
        lines += [
            f"{start} -n '{chosen}' {_fishName(word)}" for word in below if word.startswith("-")
        ]
    for flag in flags:
        spelled = " ".join(map(_fishName, flag.spellings))
        value = _fishValue(flag.value)
        lines += [f"{start} {noCommand} {spelled}{value} -d {_escaped(flag.meaning)}"]
    return "\n".join(lines) + "\n"


def _fishName(spelling: str) -> str:
    name = spelling.lstrip("-")
    if spelling.startswith("--"):
        return f"-l {name}"
    return f"-s {name}" if len(name) == 1 else f"-o {name}"


def _fishValue(placeholder: str) -> str:
    if placeholder in _CHOICES:
        return f" -x -a '{' '.join(_CHOICES[placeholder])}'"
    kinds = {"": "", "file": " -r -F", "dir": " -x -a '(__fish_complete_directories)'"}
    return kinds.get(placeholder, " -x")


def _escaped(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SCRIPTS: dict[str, Callable[[Commands, Sequence[Suggestion]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
