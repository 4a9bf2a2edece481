"""Averages of weights: means, moving averages, batch normalisation, annealing."""

from __future__ import annotations

import copy

import pytest

import gradhook
from gradhook import nn, optim
from gradhook.optim import swa_utils


def model_of(value):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    put(model, value)
    return model


def put(model, value):
    with gradhook.no_grad():
        for p in model.parameters():
            p.fill_(value)
        model[1].running_mean.fill_(value)


def averaged(values, **options):
    model = model_of(0.0)
    average = swa_utils.AveragedModel(model, **options)
    for value in values:
        put(model, value)
        average.update_parameters(model)
    return average


def test_equal_weights_are_the_mean_and_buffers_follow_the_model():
    average = averaged((1.0, 2.0, 6.0))
    assert average.module[0].weight.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert average.module[1].running_mean.tolist() == [6.0, 6.0]
    assert average.n_averaged.item() == 3 and average.n_averaged.dtype == gradhook.int64


@pytest.mark.parametrize("multi", [True, False])
def test_a_moving_average_begins_with_the_first_model(multi):
    if multi:
        options = {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}
    else:
        options = {"avg_fn": swa_utils.get_ema_avg_fn(0.75)}
    average = averaged((4.0, 0.0, 8.0), use_buffers=True, **options)
    assert average.module[0].bias.tolist() == [4.25, 4.25]
    assert average.module[1].running_mean.tolist() == [4.25, 4.25]


def test_a_loaded_average_counts_on():
    average = averaged((1.0, 3.0))
    other = averaged((7.0,))
    other.load_state_dict(average.state_dict())
    assert "module.0.weight" in average.state_dict()
    for one in (average, other, copy.deepcopy(average)):
        one.update_parameters(model_of(8.0))
        assert one.module[0].bias.tolist() == [4.0, 4.0] and one.n_averaged.item() == 3


def test_the_average_is_a_module_of_its_own():
    model = model_of(1.0)
    average = swa_utils.AveragedModel(model)
    x = gradhook.ones(3, 2)
    assert average(x).shape == (3, 2)
    assert all(p.requires_grad for p in average.parameters())
    put(model, 5.0)
    assert average.module[0].bias.tolist() == [1.0, 1.0]
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(model, avg_fn=print, multi_avg_fn=print)
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="Invalid decay value -1 provided"):
        swa_utils.get_ema_multi_avg_fn(-1)


def test_update_bn_takes_the_mean_over_all_batches():
    model = nn.Sequential(nn.BatchNorm1d(1)).eval()
    model[0].running_mean.fill_(99.0)
    batches = [gradhook.tensor([[1.0], [3.0]]), (gradhook.tensor([[5.0], [7.0]]), "label")]
    swa_utils.update_bn(batches, model)
    assert model[0].running_mean.tolist() == [4.0] and model[0].momentum == 0.1
    assert not model.training and model[0].num_batches_tracked.item() == 2
    swa_utils.update_bn(None, nn.Linear(1, 1))  # nothing to do: the loader is not even read


def test_an_error_in_update_bn_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.BatchNorm1d(1)).eval()
    with pytest.raises(RuntimeError, match="no data"):
        swa_utils.update_bn(broken(), model)
    assert model[0].momentum == 0.1 and not model.training


def broken():
    yield gradhook.ones(2, 1)
    raise RuntimeError("no data")


def test_swalr_anneals_each_group_to_its_rate():
    groups = [{"params": [nn.Parameter(gradhook.ones(1))], "lr": lr} for lr in (1.0, 0.5)]
    optimizer = optim.SGD(groups)
    schedule = swa_utils.SWALR(optimizer, [0.0, 0.1], anneal_epochs=4, anneal_strategy="linear")
    found = []
    for _ in range(6):
        found.append([g["lr"] for g in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    assert [a for a, _ in found] == pytest.approx([1, 0.75, 0.5, 0.25, 0, 0])
    assert [b for _, b in found] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.1])
    with pytest.raises(ValueError, match="anneal_strategy must be one of"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="other")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
        swa_utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
