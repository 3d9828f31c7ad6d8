"""`reverie demo`: the whole product on this machine alone, told as a story.

The gateway runs as its own process, over real HTTP on loopback, against the stand-ins for Telegram, Slack and the
model. Each scene checks what it tells: if something does not come true, the demo says so and ends with 1.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import click

from gateway.stage import DemoFailed, Stage, log_tail, stage_in

_PRIVATE = b"This is a private chat with one person."  # stands in every request of a private chat


@click.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Leave everything in this folder to look at.")
def demo(*, keep: Path | None) -> None:
    """Play the whole product on this machine alone: no tokens, no network."""
    sys.exit(play(keep=keep, say=click.echo))


def play(*, keep: Path | None, say: Callable[[str], None]) -> int:
    """Play the demo and return the exit code; `keep` is the folder to leave everything in."""
    began = time.monotonic()
    if keep and (fault := _fault(keep)):
        say(fault)
        return 1
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory(prefix="reverie-demo-") as folder:
        root = Path(folder).absolute()
        try:
            asyncio.run(_play_in(root, say))
        except DemoFailed as error:
            say(f"\nThe demo failed: {error}")
            say(f"The end of the gateway's log:\n{log_tail(root)}")
            return 1
    if keep:
        say(f"\nEverything is left in {root}: open its homes/ with any editor.")
    say(f"\nThat was Reverie, in {time.monotonic() - began:.0f} seconds. Talk to it yourself: {_command()} chat")
    return 0


def _fault(keep: Path) -> str:
    """Make the folder; say why nothing can be left in it, and the cure, "" if it can."""
    try:
        keep.mkdir(parents=True, exist_ok=True)
        free = not any(keep.iterdir())
    except FileExistsError:  # a file
        free = False
    except OSError as error:
        return f"{keep} can't be used: {error.strerror}. Give --keep a folder of your own, or one that can be made."
    if not free:
        return f"{keep} is not an empty folder: give --keep a new one, so that nothing of yours is overwritten."
    may = os.access(keep, os.R_OK | os.W_OK | os.X_OK)
    return "" if may else f"{keep} can't be written by this user. Give --keep a folder of your own."


def _command() -> str:
    beside = Path(sys.executable).with_name("reverie")
    return "reverie" if shutil.which("reverie") or not beside.exists() else os.path.relpath(beside)


async def _play_in(root: Path, say: Callable[[str], None]) -> None:
    async with stage_in(root, say) as stage:
        await _story(stage)


async def _story(stage: Stage) -> None:
    await _first_meeting(stage)
    await _restart(stage)
    await _recall(stage)
    await _isolation(stage)
    await _channel(stage)
    await _log_mode(stage)
    await _night(stage)
    await _team(stage)


async def _first_meeting(stage: Stage) -> None:
    stage.title("1. Ann meets the bot in a private Telegram chat")
    await stage.tell_telegram("Hello! My name is Ann. I prefer answers in metric units.")
    await stage.hear_telegram(lambda said: "Saved 2 memories" in said)
    stage.say("\n  After the answer, a fork of the turn has written this into her home:")
    stage.show_notes("person-telegram-42-")


async def _restart(stage: Stage) -> None:
    stage.title("2. The gateway is stopped, three days pass, and it is started again")
    await stage.stop_gateway()
    await stage.turn_back(days=3)
    await stage.start_gateway()
    stage.say("  (The days are made by setting the stored times back; nothing else was touched.)")


async def _recall(stage: Stage) -> None:
    stage.title("3. In a new conversation, Ann asks")
    await stage.tell_telegram("/new")
    answer = await stage.tell_telegram("Which units do I prefer?")
    stage.check("metric" in answer, "the answer does not use the note")
    stage.check("3 days" in answer, "the answer does not say how old the note is")
    stage.say("\n  What the program put before her question, at the tail of the request:")
    stage.show(stage.recalled("metric"))


async def _isolation(stage: Stage) -> None:
    stage.title("4. Ann asks the same in the Slack channel #garden, where others read along")
    before = len(stage.model.requests)
    answer = await stage.tell_slack("Which units do I prefer?")
    stage.check("metric" not in answer, "a private note showed in a channel")
    # The extraction of Ann's own private turn may still be under way, and that one does hold her words.
    asked = [request.raw for request in stage.model.requests[before:] if _PRIVATE not in request.raw]
    leaked = sum(b"metric" in raw for raw in asked)
    stage.check(leaked == 0, "a private note was in a request made for a channel")
    stage.say(
        f"\n  Her private note is absent, not forbidden: in what was sent to the model for this "
        f"({len(asked)} request), the word stands {leaked} times."
    )


async def _channel(stage: Stage) -> None:
    stage.title("5. The channel keeps a memory of its own, from a mention in a thread")
    thread = stage.post_slack("Shall we talk about the tomatoes here?", mention=False)
    await stage.tell_slack("We decided to plant the tomatoes in bed 3 in April.", thread=thread)
    await stage.hear_slack(lambda said: "Saved" in said, thread=thread)
    stage.say("\n  The channel belongs to the project `garden`, so the decision went to the team's memory:")
    stage.show_notes("chat-slack-t1-c1-")


async def _log_mode(stage: Stage) -> None:
    stage.title("6. The project's Telegram group works in log mode")
    await stage.tell_group(f"@{stage.telegram.bot.username} our compost bin is behind the shed.")
    log = await stage.wait_for_file("chat-telegram-1001-", "logs/*/*/*.md")
    stage.say("\n  New facts go to the log of the day; the night sorts them:")
    stage.show(log.read_text())
    await stage.stop_gateway()
    await stage.turn_back(days=1)
    await stage.start_gateway()


async def _night(stage: Stage) -> None:
    stage.title("7. Night falls, and the scheduler's jobs run once")
    note = stage.memory_of("person-telegram-42-") / "allergies.md"
    note.write_text("---\nname: Allergies\ndescription: What Ann must not eat\ntype: user\n---\n\nNo peanuts.\n")
    stage.say("  (Somebody has added `allergies.md` to Ann's folder by hand, and forgot the index.)\n")
    for job in ("close-day", "dream", "team-sync"):
        await stage.reverie("jobs", "run", job)
    index = note.with_name("MEMORY.md").read_text()
    stage.check("allergies.md" in index, "the dream did not put the note into the index")
    stage.say("  The dream has put Ann's index in order:")
    stage.show(index)
    logs = sorted(stage.memory_of("chat-telegram-1001-").glob("logs/*/*/*.md"))
    stage.check("compost" in logs[0].read_text(), "the day was not logged")
    stage.say("  The group's day is closed, with what was said:")
    stage.show(logs[0].read_text())


async def _team(stage: Stage) -> None:
    stage.title("8. The other chat of the project knows what the channel decided")
    shared = stage.memory_of("chat-telegram-1001-") / "team"
    stage.check(any("tomatoes" in note.read_text() for note in shared.glob("*.md")), "team memory did not arrive")
    answer = await stage.tell_group(f"@{stage.telegram.bot.username} where did we decide to plant the tomatoes?")
    stage.check("bed 3" in answer, "the group does not know the team's decision")
