"""docs/command-line.md: every command with its options, from the program itself, by `make docs`."""

import typer

from attsvm.cli import PANELS, app
from tests.conventions.tree import ROOT

PAGE = ROOT / "docs" / "command-line.md"


def command_page() -> str:
    """The page: its first words as they are, then every command."""
    program = typer.main.get_command(app)
    parts = [PAGE.read_text("utf-8").split("\n## ")[0]]
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
