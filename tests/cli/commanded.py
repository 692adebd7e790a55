"""docs/command-line.md: every command with its options, from the program itself, by `make docs`."""

import typer

from attsvm.cli import PANELS, app
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "command-line.md"

START = """# The command line

`attsvm --help` (or `-h`) lists the commands, the main ones first; `attsvm COMMAND -h` lists its
options in groups, with defaults and an example. The [glossary](glossary.md) explains the words of
the reports.

- **Completion.** `attsvm --install-completion` adds completion to bash, zsh, fish or PowerShell:
  commands, options, and the names of norms, optimizers, models, heads and losses. Open a new shell
  afterwards. `attsvm --show-completion` prints the script instead.
- **For programs.** With `--json` a command prints one JSON object on standard output, and nothing
  else there.
- **Exit codes.** 0 done; 2 bad input, one sentence on standard error; 3 infeasible, proved; 4
  stopped before the tolerance; 5 something that was run, or a file that was checked, does not hold.

This page is made from the program by `make docs`.
"""


def command_page() -> str:
    """The page."""
    program = typer.main.get_command(app)
    parts = [START]
    for panel in PANELS:
        parts.append(f"\n## {panel}\n")
        for name, command in program.commands.items():
            if command.rich_help_panel == panel:
                parts.append(_section(name, command))
    return "".join(parts)


def _section(name, command) -> str:
    said = _plain(command.help.split("\n\n")[0])
    epilog = command.epilog.removeprefix("Example: ")
    rows = []
    for param in command.params:
        if param.param_type_name == "argument":
            words = f"`{param.metavar or param.name.upper()}`"
        else:
            names = "`, `".join((*param.opts, *param.secondary_opts))
            words = f"`{names}`" if param.is_flag else f"`{names} {_value(param)}`"
        help_text = _plain(param.help or "").replace("|", "\\|") + _default(param)
        group = param.rich_help_panel or ""
        rows.append(f"| {words} | {help_text} | {group} |\n")
    table = "".join(rows)
    head = f"\n### {name}\n\n{said}\n\n    {epilog}\n\n"
    return f"{head}| option | does | group |\n|---|---|---|\n{table}"


def _value(param) -> str:
    return param.metavar or "VALUE"


def _plain(text: str) -> str:
    """A help text without the signs that keep its brackets."""
    return " ".join(text.replace("\\[", "[").split())


def _default(param) -> str:
    """The default value, where help shows one."""
    if param.param_type_name == "argument" or param.is_flag:
        return ""
    said = param.show_default if isinstance(param.show_default, str) else param.default
    return "" if said is None else f" Default: {said}."


if __name__ == "__main__":
    PAGE.write_text(command_page(), encoding="utf-8", newline="\n")
