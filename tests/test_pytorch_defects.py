"""PyTorch 2.13's hook defects, by the numbers of the contract (D1 to D31): where each is shown to
be right here, and the scripts of those that have no other place.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gradhook
from gradhook import autograd, nn

SHOWN = {
    2: "test_hooked_views.py: test_a_write_warns_of_each_hook_that_a_view_loses_naming_hook_and_op",
    3: "test_deviations.py: test_01_grad_captures_after_tensor_hooks_whatever_else_is_asked",
    5: "test_module_hook_state.py: test_four_threads_on_one_hooked_graph_never_mix_their_gradients",
    6: "test_multi_grad_hooks.py: test_threads_do_not_take_each_others_counts",
    7: "test_multi_grad_hooks.py: test_leaves_under_grad_are_answered",
    8: "test_module_hook_containers.py: test_what_an_op_of_several_results_returns_can_be_returned",
    9: "test_module_hook_containers.py: "
    "test_outputs_in_containers_are_seen_and_come_back_in_their_types",
    10: "test_module_hook_options.py: test_gradients_of_keyword_arguments_are_shown_by_name",
    11: "test_module_aliases.py: "
    "test_an_output_can_be_written_and_the_hook_sees_the_gradient_before_the_write",
    12: "test_module_backward_hooks.py: "
    "test_grad_input_is_none_for_what_is_no_tensor_needs_none_or_got_none",
    13: "test_module_backward_hooks.py: test_a_wrong_grad_input_is_refused_by_hook_and_module",
    14: "test_hook_notes.py: "
    "test_the_first_error_keeps_the_later_one_of_an_always_call_hook_as_its_context",
    15: "test_state_dict_hooks.py: "
    "test_a_hook_may_remove_itself_and_register_others_while_its_kind_fires",
    16: "test_state_dict_hooks.py: test_a_bound_method_may_be_a_state_dict_post_hook",
    19: "test_saved_tensor_hooks.py: "
    "test_a_write_in_place_after_saving_is_an_error_under_hooks_too",
    20: "test_saved_tensor_mutation.py: test_saved_tensor_hooks_inside_keep_the_protection",
    21: "test_ownership.py: test_an_edit_in_place_changes_the_gradient_of_this_edge_only",
    22: "test_deviations.py: test_02_hooks_on_an_accumulator_stay_while_the_leaf_lives",
    23: "test_deviations.py: test_03_post_accumulate_does_not_fire_when_nothing_was_accumulated",
    24: "test_module_aliases.py: test_what_a_forward_hook_keeps_goes_through_the_full_hook",
    26: "test_module_hook_state.py: test_after_an_error_in_a_hook_no_gradient_is_kept",
    27: "test_optimizer_hooks.py: test_a_subclass_that_calls_super_step_fires_its_hooks_once",
    28: "test_module_backward_hooks.py: "
    "test_under_no_grad_values_pass_and_enable_grad_inside_records_with_its_hook",
    29: "test_registration_hooks.py: "
    "test_a_result_of_another_kind_is_refused_and_nothing_is_registered",
    30: "test_module_aliases.py: "
    "test_a_returned_parameter_stays_a_leaf_itself_and_gets_its_gradient",
    31: "test_state_dict_hooks.py: "
    "test_with_prefix_a_load_post_hook_sees_and_edits_only_the_keys_below_its_module",
}
HERE = {1, 4, 17, 18, 25}


def test_every_defect_has_its_test():
    assert set(SHOWN) | HERE == set(range(1, 32))
    for number, place in SHOWN.items():
        file, name = place.split(": ")
        text = (Path(__file__).parent / file).read_text("utf-8")
        assert f"def {name}(" in text, f"D{number}: {place} is gone"
    own = Path(__file__).read_text("utf-8")
    assert {int(n) for n in re.findall(r"def test_d(\d+)_", own)} == HERE


def test_d1_a_hook_registered_on_a_view_whose_base_was_written_is_the_current_version_s():
    # PyTorch 2.13: segmentation fault
    x = gradhook.tensor([1.0, 2.0], requires_grad=True)
    base, seen = x * 1, []
    view = base.view(2)
    base.mul_(3)
    view.register_hook(lambda g: seen.append(g.tolist()))
    (view * 5).sum().backward()
    assert seen == [[5, 5]] and x.grad.tolist() == [15, 15]


def test_d4_a_second_derivative_past_the_outputs_does_not_fire_with_the_first_pass_s_gradient():
    # PyTorch 2.13 fires with grad_output 5 of the first pass
    layer, seen = nn.Linear(2, 2), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].tolist()))
    a = gradhook.tensor([[1.0, 2.0]], requires_grad=True)
    (gw,) = autograd.grad((layer(a) * 5).sum(), layer.weight, create_graph=True)
    assert seen == []  # the input's gradient was not asked for
    (ga,) = autograd.grad(gw.sum(), a)
    assert seen == [] and ga.tolist() == [[10, 10]]


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_d17_a_module_whose_last_legacy_hook_went_takes_a_full_one():
    # PyTorch 2.13 refuses for good
    layer = nn.Linear(2, 2)
    layer.register_backward_hook(lambda m, gi, go: None).remove()
    layer.register_full_backward_hook(lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        layer.register_backward_hook(lambda m, gi, go: None)


def test_d18_a_legacy_hook_of_a_module_without_a_tensor_in_its_output_ends():
    # PyTorch 2.13 hangs for a str, and raises StopIteration for {}
    class Says(nn.Module):
        def forward(self, x, word):
            return word

    module = Says()
    module.register_backward_hook(lambda m, gi, go: None)
    x = gradhook.ones(1, requires_grad=True)
    assert module(x, "done") == "done" and module(x, {}) == {}


def test_d25_a_pre_hook_alone_without_an_input_that_needs_grad_does_not_warn(recwarn):
    # PyTorch 2.13 warns in every pass that a full hook fires
    layer, seen = nn.Linear(2, 2), []
    layer.register_full_backward_pre_hook(lambda m, go: seen.append(1))
    for _ in range(2):
        layer(gradhook.ones(1, 2)).sum().backward()
    assert len(seen) == 2 and not recwarn.list
