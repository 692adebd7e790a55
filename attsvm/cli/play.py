"""play: a page that computes selections, directions and paths in the plane."""

from __future__ import annotations

from pathlib import Path

from attsvm._utils.files import check_out, write_text
from attsvm.cli.options import command
from attsvm.cli.output import emit


@command("--out play.html --open")
def play_command(
    out: Path = Path("play.html"), open_: bool = False, force: bool = False, json_: bool = False
) -> None:
    """Write the playground, one page for the browser: drag tokens and see what training selects.

    The page loads nothing. It computes max-margin directions, local optima and paths of training
    for inputs in the plane.

    Options
    -------
    out : FILE
        The page.
    open
        Open the page in the browser.
    """
    from attsvm.plotting.play import page

    text = page()
    if not (out.is_file() and out.read_bytes() == text.encode()):  # this very page may stay
        check_out(out, force=force)
        write_text(out, text)
    opened = False
    if open_:
        import webbrowser

        opened = webbrowser.open(out.resolve().as_uri())
    emit({"status": "optimal", "file": str(out), "opened": opened}, json_, str(out))
