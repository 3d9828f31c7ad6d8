"""The composition root of what runs: the gateway and its commands, put together around a core."""

from collections.abc import Mapping

from adapters.base import Adapter, Identity
from gateway.agent.subagents import Subagents
from gateway.approvals import Approvals
from gateway.asgi import application
from gateway.attachments import Attachments
from gateway.buttons import Buttons
from gateway.commands.agents import AgentsCommand
from gateway.commands.dream import DreamCommand
from gateway.commands.erasure import ErasureCommands
from gateway.commands.jobs import JobsCommand
from gateway.commands.memory import MemoryCommands
from gateway.commands.mode import ModeCommand
from gateway.commands.proposals import ProposalCommand
from gateway.commands.table import Commands
from gateway.commands.team import TeamCommand
from gateway.commands.user import UserCommands
from gateway.commands.why import WhyCommand
from gateway.core import Core
from gateway.extraction import Extractions
from gateway.home_page import HomePage
from gateway.inbox import Inbox
from gateway.intake import Intake
from gateway.moves import Moves
from gateway.opening import Opening
from gateway.publishing import Publishing
from gateway.running import Gateway
from gateway.settings import VoiceSettings
from gateway.signs import Signs
from gateway.team_states import DatabaseForgotten
from gateway.team_writes import TeamWrites
from gateway.tools.definitions import WRITING
from gateway.turn import Turns
from gateway.voice import Command, Transcriber
from gateway.worker import Worker
from memory.agent_snapshots import Snapshots
from memory.instructions.layers import Instructions
from memory.recall import Recall
from memory.scope import Scope
from memory.team.audit import Audit

_LEASE_SECONDS = 30.0


def assemble(core: Core, adapters: Mapping[str, Adapter]) -> Gateway:
    """Make the gateway around a core."""
    settings, clock = core.settings, core.clock
    inbox = Inbox(core.database, core.outbox, clock, lease=_LEASE_SECONDS)
    identities: dict[str, Identity] = {}
    buttons = Buttons(core.database, clock)
    team_writes = TeamWrites(core.notes, core.staging, core.database, core.outbox, settings.memory, buttons=buttons)
    instructions = Instructions(homes=core.homes, managed_dir=settings.managed_dir, settings=settings.instructions)
    subagents = _subagents(core)
    signs = Signs(adapters, standing=inbox.standing, acknowledge=settings.reply.acknowledge)
    approvals = Approvals(
        core.database,
        core.outbox,
        buttons,
        adapters,
        clock,
        seconds=settings.tools.ask_seconds,
        owners=settings.access.owners,
    )
    turns = Turns(
        settings=settings,
        database=core.database,
        inbox=inbox,
        outbox=core.outbox,
        history=core.history,
        provenance=core.provenance,
        record_forgotten=core.erasures.record_facts,
        usage=core.usage,
        scopes=core.scopes,
        model=core.model,
        opening=Opening(
            settings=settings,
            database=core.database,
            history=core.history,
            scopes=core.scopes,
            instructions=instructions,
            subagents=subagents,
            team=core.night.sync,
            clock=clock,
            meter=core.metrics,
            memory_off=_memory_off(core),
        ),
        scanner=core.scanner,
        recall=Recall(core.runs.ask, core.scanner, settings.memory, clock, meter=core.metrics),
        instructions=instructions,
        subagents=subagents,
        team_writes=team_writes,
        commands=commands(
            core,
            instructions,
            subagents,
            adapters=adapters,
        ),
        buttons=buttons,
        attachments=Attachments(settings.attachments, home=core.homes.home, transcriber=_transcriber(settings.voice)),
        approvals=approvals,
        asked=frozenset(settings.tools.ask) | (WRITING if core.homes.overridden else frozenset()),
        adapters=adapters,
        signs=signs,
        clock=clock,
        meter=core.metrics,
    )
    worker = Worker(inbox, turns, clock, concurrency=settings.workers, patience=settings.model.patience)
    extractions = Extractions(
        history=core.history,
        provenance=core.provenance,
        scopes=core.scopes,
        runs=core.runs,
        scanner=core.scanner,
        settings=settings.memory,
        leases=core.leases,
        notices=core.notices,
        clock=clock,
        concurrency=settings.workers,
        owners=settings.access.owners,
        team_writes=team_writes,
        meter=core.metrics,
    )
    gateway: Gateway

    async def faults() -> Mapping[str, str]:
        return await gateway.faults()

    routes = [*core.night.team_routes, *(route for adapter in adapters.values() for route in adapter.routes())]
    gateway = Gateway(
        core=core,
        adapters=adapters,
        inbox=inbox,
        intake=Intake(
            inbox=inbox,
            access=core.access,
            adapters=adapters,
            chats=settings.chats,
            stop=worker.stop,
            lose=worker.lose,
            taken=signs.taken,
            move=Moves(core.database, core.access, core.history, inbox),
            buttons=buttons,
            approvals=approvals,
            page=HomePage(core.access, core.scopes, core.scanner, clock),
        ),
        worker=worker,
        signs=signs,
        extractions=extractions,
        identities=identities,
        web=application(faults=faults, metrics=core.metrics.exposition, routes=routes),
    )
    return gateway


def _transcriber(settings: VoiceSettings) -> Transcriber | None:
    return Command(settings.command, seconds=settings.seconds) if settings.command else None


def _memory_off(core: Core) -> str:
    if core.memory_on:
        return ""
    return "environment" if core.settings.memory.auto_memory_enabled else "setting"


def _subagents(core: Core) -> Subagents:
    memory = core.settings.memory
    return Subagents(
        home=core.settings.home,
        memory_base=core.settings.memory_base,
        model=core.model,
        settings=core.settings.model,
        memory=memory,
        notes=core.notes,
        scanner=core.scanner,
        usage=core.usage,
        clock=core.clock,
        max_turns=memory.agent_max_turns,
        snapshots=_snapshots(core) if memory.agent_snapshots else None,
        meter=core.metrics,
        forgotten=core.erasures.since,
    )


def _snapshots(core: Core) -> Snapshots:
    forgotten_in = DatabaseForgotten(core.database)

    async def forgotten(memory: Scope) -> frozenset[str]:
        """Look where `core.erasures.since` does: an agent's memory may be one for many projects, or for many chats."""
        near = [
            scope
            for scope in await core.scopes.known()
            if scope.principal == memory.principal or (memory.project and scope.project == memory.project)
        ]
        return frozenset[str]().union(*[await forgotten_in(scope) for scope in [memory, *near]])

    return Snapshots(core.notes, core.leases, core.settings.memory, forgotten=forgotten)


def commands(
    core: Core,
    instructions: Instructions,
    subagents: Subagents,
    *,
    adapters: Mapping[str, Adapter],
) -> Commands:
    """Return the commands with what they look at."""
    user = UserCommands(
        settings=core.settings,
        scopes=core.scopes,
        history=core.history,
        usage=core.usage,
        scanner=core.scanner,
        clock=core.clock,
        adapters=adapters,
        instruction_files=instructions,
    )
    memory = MemoryCommands(notes=core.notes, scanner=core.scanner, clock=core.clock)
    why = WhyCommand(provenance=core.provenance, scanner=core.scanner, clock=core.clock, settings=core.settings)
    erasure = ErasureCommands(
        settings=core.settings,
        scopes=core.scopes,
        erasures=core.erasures,
        provenance=core.provenance,
        notes=core.notes,
        scanner=core.scanner,
        leases=core.leases,
        forget_in_team=core.night.team_forgetting,
        meter=core.metrics,
    )
    jobs = JobsCommand(settings=core.settings, scheduler=core.night.clock, board=core.night.board, clock=core.clock)
    night = core.night
    dream = DreamCommand(
        settings=core.settings,
        dreaming=night.dreams,
        undo=night.undo,
        budget=night.budget,
        scheduler=night.clock,
        adapters=adapters,
    )
    agents = AgentsCommand(settings=core.settings, subagents=subagents, scanner=core.scanner)
    mode = ModeCommand(
        settings=core.settings, scopes=core.scopes, close_log=night.close_log, clock=core.clock, meter=core.metrics
    )
    team = TeamCommand(
        settings=core.settings,
        staging=core.staging,
        publishing=Publishing(core.staging, core.notes, core.provenance, night.sync, core.clock),
        sync=night.sync,
        board=night.board,
        scanner=core.scanner,
        provenance=core.provenance,
        notes=core.notes,
        proposals=ProposalCommand(settings=core.settings, proposals=night.proposals, decisions=night.decisions),
        clock=core.clock,
        audit=Audit(core.database, clock=core.clock),
    )
    about_memory = {**memory.handlers, **why.handlers, **erasure.handlers, **dream.handlers, **mode.handlers}
    return Commands({**user.handlers, **about_memory, **agents.handlers, **jobs.handlers, **team.handlers})
