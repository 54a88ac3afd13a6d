"""What two lines of commits have in common, beside a plain search over small random histories."""

import itertools
import random

import pytest

from omnigraph.storage.manifest.ancestry import (
    ancestors,
    lowest_common_ancestors,
    merge_bases_of_all,
)


def history(seed, commits=30, branches=4):
    """Return the parents of a random history and the heads of its branches."""
    dice = random.Random(seed)
    parents = {"c0": ()}
    heads = {"b0": "c0"}
    for number in range(1, commits):
        name = dice.choice(sorted(heads))
        commit = f"c{number}"
        match dice.random():
            case chance if chance < 0.2 and len(heads) < branches:
                heads[f"b{len(heads)}"] = heads[name]
                continue
            case chance if chance < 0.5 and len(heads) > 1:
                other = heads[dice.choice(sorted(set(heads) - {name}))]
                both = (heads[name], other) if other != heads[name] else (other,)
                parents[commit] = both
            case _:
                parents[commit] = (heads[name],)
        heads[name] = commit
    return parents, heads


def reaches(parents, commit):
    return {commit}.union(*(reaches(parents, one) for one in parents[commit]))


@pytest.mark.parametrize("seed", range(25))
def test_the_lowest_common_ancestors_are_those_no_other_common_one_descends_from(seed):
    parents, heads = history(seed)
    every = set()
    for one, other in itertools.combinations(sorted(heads.values()), 2):
        common = reaches(parents, one) & reaches(parents, other)
        lowest = {
            commit
            for commit in common
            if not any(commit in reaches(parents, later) - {later} for later in common)
        }
        assert set(lowest_common_ancestors(parents, [one], [other])) == lowest
        if one != other:
            every |= lowest
    assert every <= merge_bases_of_all(parents, heads.values())
    assert all(ancestors(parents, head) == reaches(parents, head) for head in heads.values())


def test_what_one_pass_keeps_is_not_the_whole_history():
    parents, heads = history(3, commits=200)
    assert len(merge_bases_of_all(parents, heads.values())) < len(parents) / 4
