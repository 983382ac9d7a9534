"""vLLM's /metrics page becomes one reading."""

from pathlib import Path

import pytest

from engines.spec import EngineLoad
from engines.vllm.metrics import parse_metrics

PAGE = (Path(__file__).parent / "data" / "vllm-0.32-metrics.txt").read_text()


def test_reads_the_names_weir_needs_from_a_real_page():
    assert parse_metrics(PAGE) == EngineLoad(
        running=0,
        waiting=0,
        kv_cache_ratio=0.0,
        kv_cache_tokens=1_048_576,
        prompt_tokens=7570,
        generation_tokens=2300,
        cached_prompt_tokens=3584,
        preemptions=0,
        ttft_seconds_sum=29.594670295715332,
        ttft_count=33,
        tpot_seconds_sum=2.435222598000337,
        tpot_count=2267,
        started_at_seconds=1.7959651518466365e09,
    )


def test_a_name_within_a_line_or_with_more_letters_is_another():
    page = (
        'vllm:prompt_tokens_total{engine="0"} 1.0\n'
        "# HELP vllm:prompt_tokens_total vllm:prompt_tokens_total 5\n"
        "vllm:prompt_tokens_totals 7.0\n"
        "x vllm:prompt_tokens_total 9.0\n"
        "vllm:prompt_tokens_total 2.0\r\n"
    )
    assert parse_metrics(page).prompt_tokens == 3


def test_sums_the_ranks_of_a_data_parallel_engine_and_keeps_the_fullest_cache():
    page = "".join(
        f'vllm:num_requests_running{{engine="{rank}",model_name="m"}} {running}.0\n'
        f'vllm:kv_cache_usage_perc{{engine="{rank}",model_name="m"}} {used}\n'
        for rank, running, used in ((0, 3, 0.25), (1, 4, 0.75))
    )
    load = parse_metrics(page)
    assert (load.running, load.kv_cache_ratio) == (7, 0.75)


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ('block_size="128",kv_cache_size_tokens="55356",num_gpu_blocks="2730"', 55_356),
        ('block_size="16",kv_cache_size_tokens="None",num_gpu_blocks="100"', 1_600),
        ('block_size="16",num_gpu_blocks="None"', None),
    ],
)
def test_capacity_is_what_vllm_says_or_blocks_times_size_or_unknown(labels, tokens):
    assert parse_metrics(f"vllm:cache_config_info{{{labels}}} 1.0\n").kv_cache_tokens == tokens


def test_answers_of_5xx_are_counted_over_all_paths_and_others_are_not():
    page = "".join(
        f'http_requests_total{{handler="{path}",method="POST",status="{status}"}} {count}.0\n'
        for path, status, count in (
            ("/v1/chat/completions", "2xx", 90),
            ("/v1/chat/completions", "5xx", 3),
            ("/v1/completions", "4xx", 7),
            ("/v1/completions", "5xx", 4),
        )
    )
    assert parse_metrics(page).failures == 7


@pytest.mark.parametrize("page", ["", "<html>502</html>", "vllm:prompt_tokens_total{} NaN\n"])
def test_a_page_without_numbers_is_an_empty_reading(page):
    assert parse_metrics(page) == EngineLoad()


def test_a_model_name_with_braces_and_spaces_does_not_confuse_it():
    page = 'vllm:num_requests_waiting{model_name="a} b{c"} 5.0\n'
    assert parse_metrics(page).waiting == 5
