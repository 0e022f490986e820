"""What does not go together with streams that have no instants, of whatever class they are."""

from __future__ import annotations

from cnc.keys.problems import KeyPath, Problems
from cnc.model import Intent, Stream, Windows


def refuse_instants(
    intent: Intent, stream: Stream, class_name: str, by: str, problems: Problems
) -> None:
    """Note what a stream of this class, whose frames leave by `shaping: by`, states that only
    planned frames have."""
    path: KeyPath = ("streams", stream.name)
    if len(stream.traffic_classes) > 1:
        found = f"{class_name}, and others"
        problems.add((*path, "class"), found, f"{class_name} alone, or the others")
    talker = intent.network.end_stations.get(stream.talker)
    if talker is not None and talker.gate_mode is not None:
        problems.add(
            path,
            f"class {class_name}, and gates of its talker {talker.name}, which shut it out at "
            "times",
            f"a talker without gates: streams of {class_name} have no offset",
        )
    stated = (
        ("window", bool(stream.earliest_ns or stream.latest_ns is not None), "a window"),
        ("max-jitter", stream.max_jitter_ns is not None, "a max-jitter"),
        ("paths", stream.paths > 1, f"{stream.paths} paths"),
        ("identification", stream.identification is not None, "frames without a tag"),
        ("windows", stream.windows is Windows.SHARED, "windows: shared"),
    )
    for key, is_stated, what in stated:
        if is_stated:
            problems.add(
                (*path, key),
                f"{what}, and class {class_name} with shaping: {by}",
                "no such key, or another class",
            )
