from dataclasses import replace
from pathlib import Path

from memory.lease_names import EXTRACTING, dreaming, exchanging, extracting, writing
from tests.unit.memory.dreams import Night


def test_each_kind_of_work_has_a_lease_of_its_own_for_each_memory_directory(tmp_path: Path) -> None:
    scope = Night(tmp_path).scope
    other = replace(scope, memory_dir=tmp_path / "other")
    names = [name(each) for name in (writing, extracting, dreaming, exchanging) for each in (scope, other)]
    assert len(set(names)) == len(names)
    assert extracting(scope).partition(":")[0] == EXTRACTING
