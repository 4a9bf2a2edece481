"""Files damaged at random: `make fuzz` checks more of them."""

from __future__ import annotations

import random

import pytest

from fuzz import files

SOME = 500


@pytest.mark.cpu_only(reason="the programs run on the CPU: they are about files")
def test_damaged_files_neither_crash_nor_hang_nor_fill_the_memory_nor_change_a_parameter():
    results = list(files.run(SOME, seed=5))
    assert [str(error) for *_, error in results if error is not None] == []
    found = {result for _, result, *_ in results}
    assert found == {"refused", "fits", "loaded", "loaded, does not fit"}


def test_the_check_sees_each_wrong(monkeypatch):
    net = files.model()

    def told(text):
        with pytest.raises(files.Wrong, match=text):
            files.checked("state", b"data", net)

    monkeypatch.setattr(files, "load", lambda *_: [][1])
    told("it raises IndexError")
    monkeypatch.setattr(files, "load", lambda *_: len(bytearray(files.FREE * 2)))
    told("bytes of memory, the file has 4")

    def raises(*_):
        net[0].weight.detach().zero_()
        raise files.LoadError("can't load the file: it is small")

    monkeypatch.setattr(files, "load", raises)
    told("it changed a parameter and raised")

    def hangs(*_):
        while True:
            pass

    monkeypatch.setattr(files, "SECONDS", 1)
    monkeypatch.setattr(files, "load", hangs)
    told("it takes over 1 seconds")


@pytest.mark.parametrize("kind", files.honest())
def test_mutations_are_the_same_for_the_same_seed(kind):
    data = files.honest()[kind]
    made = [files.damaged(kind, data, random.Random(k)) for k in range(20)]
    assert made == [files.damaged(kind, files.honest()[kind], random.Random(k)) for k in range(20)]
    assert sum(m != data for m in made) > 15
