"""What happens to toy sessions: `python -m tests.unit.toy_scenarios SCENARIO`.

A program of its own, because a process that forks the spawner must have one thread. It prints what
the scenario has seen as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, replace

from agent.journal import JournalHandler
from agent.netconfd import system_calls
from agent.netconfd.front import serve as front_serve
from agent.netconfd.front.spawner import Spawner, SpawnerError
from tests.unit.toy_sessions import (
    LIMITS,
    WAIT_S,
    Channel,
    Front,
    children,
    open_files,
    prepare,
    serve,
    until,
)

LITTLE_CPU = replace(LIMITS, request_cpu_s=1)


async def an_echo(front):
    client = await front.session({"capabilities": ["a", "b"]})
    return {
        "start": await client.ask("start"),
        "shared": (await client.ask("shared"))["modules"],
        "frozen objects": await client.ask("frozen objects"),
        "ended": await client.end(),
    }


async def ends(front):
    """How sessions end that compute, crash, fail, or are killed."""
    seen = {}
    client = await front.session()
    await client.begin("compute")
    front.spawner.kill(client.number)
    seen["killed while it computed"] = await client.how()
    for command in ("compute", "crash", "raise"):
        client = await front.session(limits=LITTLE_CPU)
        await client.begin(command)
        seen[command] = await client.how()
    for name, number in (("SIGKILL from outside", signal.SIGKILL), ("SIGTERM", signal.SIGTERM)):
        client = await front.session()
        pid = await client.ask("pid")
        await client.begin("compute")
        os.kill(pid, number)
        seen[name] = await client.how()
    client = await front.session()
    seen["its neighbour"] = await client.ask("start")
    return seen


async def polite(front):
    """The nice values of the front and of three sessions."""
    seen = [os.getpriority(os.PRIO_PROCESS, 0)]
    for nice in (0, 5, 19):
        client = await front.session(limits=replace(LIMITS, nice=nice))
        seen.append(await client.ask("nice"))
    return seen


QUESTIONS = ("files", "new descriptors", "given up", "limits", "others", "memory")


async def confined(front):
    """What a session process can still do, from within."""
    client = await front.session()
    seen = {each: await client.ask(each) for each in QUESTIONS}
    seen["spawner's files"] = (await client.ask("shared"))["files"]
    await client.end()
    client = await front.session({"before": "write a file"})
    with socket.socket() as _:
        seen["a file"], seen["capabilities"] = json.loads(
            await asyncio.get_running_loop().sock_recv(client._socket, 1000)
        )
    return seen


async def aimed(front):
    """A session process has the kernel signal another one of its user for what arrives."""
    with subprocess.Popen(["sleep", "600"]) as victim:  # noqa: ASYNC220
        try:
            client = await front.session({"victim": victim.pid})
            ways = await client.ask("aim")
            # Its next command arrives.
            await client.ask("start")
            try:
                ended = victim.wait(timeout=1)
            except subprocess.TimeoutExpired:
                ended = None
            return {"ways": ways, "ended": ended}
        finally:
            victim.kill()


async def unfiltered(front):
    """A session on a machine without libseccomp."""
    return await (await front.session()).ask("new descriptors")


async def signalled(front):
    """The spawner beside signals for all processes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(front.spawner._pid, number)
    return await (await front.session()).ask("start")


async def without_spawner(front):
    """The spawner is killed while sessions compute."""
    clients = [await front.session() for _ in range(3)]
    pids = [await client.ask("pid") for client in clients]
    for client in clients:
        await client.begin("compute")
    os.kill(front.spawner._pid, signal.SIGKILL)
    died = await asyncio.wait_for(front.spawner.died, WAIT_S)
    ended = [await client.how() for client in clients]
    try:
        await front.session()
    except SpawnerError as error:
        refused = str(error)
    return {"died": died, "ended": ended, "refused": refused, "pids": pids}


async def without_front(front):
    """Print the processes, and wait to be killed."""
    clients = [await front.session() for _ in range(3)]
    pids = [await client.ask("pid") for client in clients]
    for client in clients:
        await client.begin("compute")
    # Another process may have inherited the front's end of a socket, which does not close then.
    heir = subprocess.Popen(["sleep", "600"], pass_fds=[front.spawner._control.fileno()])  # noqa: ASYNC220
    seen = {"ended with the front": [front.spawner._pid, *pids], "heir": heir.pid}
    print(json.dumps(seen), flush=True)
    await asyncio.sleep(WAIT_S)


async def closed(front):
    """An orderly end while sessions compute."""
    clients = [await front.session() for _ in range(3)]
    pids = [await client.ask("pid") for client in clients]
    for client in clients:
        await client.begin("compute")
    await front.spawner.close()
    return {
        "ended": [await client.how() for client in clients],
        "pids": pids,
        "children": children(os.getpid()),
    }


async def many(front):
    """200 sessions, 20 at a time; what is open before and after."""
    seen = {}
    for when in ("before", "after"):
        await front.use(b"modules")
        client = await front.session()
        seen[when] = {"front": len(open_files()), "spawner": await client.ask("shared")}
        await client.end()
        if when == "before":
            for _ in range(10):
                clients = await asyncio.gather(*(front.session() for _ in range(20)))
                for client in clients:
                    await client.ask("start")
                for client in clients:
                    assert (await client.end())["is_orderly"]
    seen["children"] = children(front.spawner._pid)
    return seen


async def modules(front):
    """New modules, and ones that cannot be used."""
    before = await front.session()
    await front.use(b"newer")
    after = await front.session()
    try:
        await front.use(b"broken")
    except SpawnerError as error:
        refused = str(error)
    last = await front.session()
    shared = [(await each.ask("shared"))["modules"] for each in (before, after, last)]
    return {"shared": shared, "refused": refused}


async def too_early(front):
    """A session before there are modules."""
    files = open_files()
    near, far = socket.socketpair()
    broker, other = socket.socketpair()
    try:
        await front.spawner.start(1, {}, LIMITS, client=far.detach(), broker=other.detach())
    except SpawnerError as error:
        refused = str(error)
    # The other ends are closed everywhere.
    ends = [near.recv(1), broker.recv(1)]
    near.close()
    broker.close()
    return {"refused": refused, "ends": [len(end) for end in ends], "left": open_files() == files}


async def cancelled(front):
    """Whoever wanted a session does no longer, before it has begun."""
    starting = asyncio.create_task(front.session())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait((starting,))
    await until(lambda: not children(front.spawner._pid) and not front.spawner._running)


async def says(front):
    client = await front.session()
    answer = await client.ask("say much")
    return {"answer": answer, "ended": await client.end()}


async def served(front):
    """Channels whose client leaves, whose session ends, and both reluctantly."""
    front_serve.FAREWELL_S = 0.2

    async def serve_channel(channel, leaves_at=None):
        front.last += 1
        broker, other = socket.socketpair()
        serving = asyncio.create_task(
            front_serve.serve(
                front.spawner, channel, front.last, {}, limits=LIMITS, broker=other.detach()
            )
        )
        if leaves_at is not None:
            await until(lambda: leaves_at in channel.answers)
            channel.leave()
        with broker:
            return asdict(await asyncio.wait_for(serving, WAIT_S))

    seen = {}
    orderly = Channel(b"start\n", b"")
    seen["sends no more"] = await serve_channel(orderly)
    seen["its answers"] = orderly.answers.decode()
    seen["leaves"] = await serve_channel(Channel(b"compute\n"), leaves_at=b"begun")
    seen["reads nothing"] = await serve_channel(Channel(b"start\n", b"", reads=False))
    seen["session closes and stays"] = await serve_channel(Channel(b"close\n"))
    seen["crash"] = await serve_channel(Channel(b"crash\n"))
    front_serve.FAREWELL_S = WAIT_S
    seen["children"] = children(front.spawner._pid)
    return seen


SCENARIOS = {
    each.__name__: each
    for each in (
        an_echo,
        ends,
        polite,
        aimed,
        confined,
        unfiltered,
        signalled,
        without_spawner,
        without_front,
        closed,
        many,
        modules,
        too_early,
        cancelled,
        says,
        served,
    )
}


async def run(scenario, spawner):
    spawner.attach()
    front = Front(spawner)
    if scenario is not too_early:
        await front.use(b"modules")
    seen = await scenario(front)
    print(json.dumps(seen))


@contextmanager
def secret():
    """A file that the front has open when it forks the spawner, for its children to inherit."""
    with tempfile.NamedTemporaryFile(prefix="host-key") as file:
        os.set_inheritable(file.fileno(), True)
        yield


def main():
    logging.basicConfig(format="%(levelname)s %(message)s")
    # As under systemd, where the log has a descriptor of its own; here it says nothing.
    journal = JournalHandler("toy")
    journal.setLevel(logging.CRITICAL)
    logging.getLogger().addHandler(journal)
    if sys.argv[1] == "unfiltered":
        system_calls._LIBRARY = "libseccomp.so.0"
    with secret():
        spawner = Spawner.fork(serve, prepare)
        asyncio.run(run(SCENARIOS[sys.argv[1]], spawner))


if __name__ == "__main__":
    main()
