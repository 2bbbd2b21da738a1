# SPDX-License-Identifier: Apache-2.0
"""Models of many kinds in small configurations with random weights: the model set and what it leaves out.

``SWEEP`` maps a kind, such as "dense decoders", to its cases. All are of transformers: those of timm would need a
torchvision for the same build of torch, which the requirements do not have.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers

from benchmarks import models
from benchmarks.model_case import Inputs, ModelCase
from benchmarks.models import TINY, TINY_FFN, TINY_LLAMA, TINY_VIT, Config, InputMaker, generator, image, row, text


def small(name: str, model: str, inputs: InputMaker, **config: Any) -> ModelCase:
    """A case that has no other size."""
    return row(name, model, inputs, config, config)


def plain_text(config: Config, batch: int, size: str) -> Inputs:
    return text(config, batch, size) | {"use_cache": False}


def ids_alone(config: Config, batch: int, size: str) -> Inputs:
    return {"input_ids": models.token_ids(config, batch, models.SEQUENCE[size])}


def uncached_ids(config: Config, batch: int, size: str) -> Inputs:
    return ids_alone(config, batch, size) | {"use_cache": False}


def waves(config: Config, batch: int, size: str) -> Inputs:
    return {"input_values": torch.randn(batch, 1600, generator=generator("waves"))}


def one_wave(config: Config, batch: int, size: str) -> Inputs:
    return {"input_values": torch.randn(batch, 1, 640, generator=generator("waves"))}


def frames(count: int, bins: str, name: str = "input_features") -> InputMaker:
    """Speech features [batch, count, bins], where ``bins`` is the attribute of the configuration with their number."""

    def make(config: Config, batch: int, size: str) -> Inputs:
        return {name: torch.randn(batch, count, getattr(config, bins), generator=generator("frames"))}

    return make


def video(config: Config, batch: int, size: str) -> Inputs:
    shape = (batch, config.num_frames, 3, config.image_size, config.image_size)
    return {"pixel_values": torch.randn(shape, generator=generator("video"))}


def pixels(side: int) -> InputMaker:
    return lambda config, batch, size: {
        "pixel_values": torch.randn(batch, 3, side, side, generator=generator("pixels"))
    }


def image_and_words(config: Config, batch: int, size: str) -> Inputs:
    made = models.image_and_text(config, batch, size)
    return {"input_ids": made["input_ids"], "pixel_values": made["pixel_values"]}


def speech_pair(config: Config, batch: int, size: str) -> Inputs:
    features = frames(32, "input_feat_per_channel")(config, batch, size)
    return features | {"decoder_input_ids": models.token_ids(config, batch, 4)}


def wave_pair(config: Config, batch: int, size: str) -> Inputs:
    return waves(config, batch, size) | {"decoder_input_ids": models.token_ids(config, batch, 4)}


LLAMA = TINY_LLAMA | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 64}
EXPERTS = LLAMA | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LOCAL = LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = LLAMA | {
    "num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "qk_nope_head_dim": 16,
}  # fmt: skip
ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip
GPT = {"vocab_size": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}

DENSE = [
    *models.DECODERS[:-1],
    small("apertus", "ApertusForCausalLM", text, **LLAMA),
    small("bloom", "BloomForCausalLM", text, vocab_size=128, hidden_size=64, n_layer=2, n_head=4),
    small("codegen", "CodeGenForCausalLM", text, **GPT, rotary_dim=8, n_positions=64),
    small("cohere2", "Cohere2ForCausalLM", text, **LLAMA, sliding_window=8),
    small("exaone4", "Exaone4ForCausalLM", text, **LLAMA),
    small("falcon", "FalconForCausalLM", text, **TINY, bos_token_id=1, eos_token_id=2),
    small("gemma2", "Gemma2ForCausalLM", text, **LLAMA, head_dim=16, sliding_window=8),
    small("gemma3", "Gemma3ForCausalLM", text, **LLAMA, head_dim=16, sliding_window=8),
    small("glm4", "Glm4ForCausalLM", text, **LLAMA, head_dim=16),
    small("gpt_bigcode", "GPTBigCodeForCausalLM", text, **GPT, n_positions=64),
    small("gpt_neo", "GPTNeoForCausalLM", text, vocab_size=128, hidden_size=64, num_layers=2, num_heads=4,
          attention_types=[[["global", "local"], 1]], max_position_embeddings=64, window_size=8),
    small("gptj", "GPTJForCausalLM", text, **GPT, rotary_dim=8, n_positions=64),
    small("granite", "GraniteForCausalLM", text, **LLAMA),
    small("mpt", "MptForCausalLM", text, vocab_size=128, d_model=64, n_heads=4, n_layers=2, max_seq_len=64),
    small("nemotron", "NemotronForCausalLM", text, **LLAMA),
    small("olmo2", "Olmo2ForCausalLM", text, **LLAMA),
    small("phi3", "Phi3ForCausalLM", text, **LLAMA),
    small("smollm3", "SmolLM3ForCausalLM", text, **LLAMA),
    small("stablelm", "StableLmForCausalLM", text, **LLAMA),
    small("starcoder2", "Starcoder2ForCausalLM", text, **LLAMA),
]  # fmt: skip

MIXTURES = [
    small("deepseek_v2", "DeepseekV2ForCausalLM", text, **LATENT, **ROUTED),
    small("deepseek_v3", "DeepseekV3ForCausalLM", text, **LATENT, **ROUTED),
    small("dots1", "Dots1ForCausalLM", text, **LLAMA, **ROUTED),
    small("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", text, **LLAMA, moe_num_experts=4, moe_k=2,
          moe_intermediate_size=32, moe_num_shared_experts=1),
    small("flex_olmo", "FlexOlmoForCausalLM", text, **LLAMA, num_experts=4, num_experts_per_tok=2),
    small("glm4_moe", "Glm4MoeForCausalLM", text, **LLAMA, **ROUTED),
    small("gpt_oss", "GptOssForCausalLM", text, **LOCAL, head_dim=16, sliding_window=8),
    small("granitemoe", "GraniteMoeForCausalLM", text, **LOCAL),
    small("granitemoeshared", "GraniteMoeSharedForCausalLM", text, **LOCAL, shared_intermediate_size=32),
    small("hunyuan_moe", "HunYuanMoEV1ForCausalLM", text, **LLAMA, num_experts=4, moe_topk=2, head_dim=16),
    small("jamba", "JambaForCausalLM", plain_text, **LLAMA, num_experts=4, num_experts_per_tok=2, attn_layer_period=2,
          attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, use_mamba_kernels=False, mamba_d_state=8),
    small("jetmoe", "JetMoeForCausalLM", text, **LOCAL, kv_channels=16),
    small("lfm2_moe", "Lfm2MoeForCausalLM", plain_text, **EXPERTS, num_dense_layers=1,
          layer_types=["conv", "full_attention"]),
    small("longcat_flash", "LongcatFlashForCausalLM", text, **(LATENT | {"head_dim": 8}), ffn_hidden_size=64,
          num_layers=2, expert_ffn_hidden_size=32, n_routed_experts=4, moe_topk=2, zero_expert_num=2),
    small("minimax", "MiniMaxForCausalLM", plain_text, **LOCAL, block_size=8),
    small("mixtral", "MixtralForCausalLM", text, **LOCAL),
    small("nllb_moe", "NllbMoeForConditionalGeneration", models.text_pair, **models.BART_TINY, num_experts=4,
          encoder_sparse_step=2, decoder_sparse_step=2),
    small("olmoe", "OlmoeForCausalLM", text, **LLAMA, num_experts=4, num_experts_per_tok=2),
    small("phimoe", "PhimoeForCausalLM", text, **LOCAL),
    small("qwen2_moe", "Qwen2MoeForCausalLM", text, **EXPERTS, shared_expert_intermediate_size=48),
    small("qwen3_moe", "Qwen3MoeForCausalLM", text, **EXPERTS, head_dim=16),
    small("switch_transformers", "SwitchTransformersForConditionalGeneration", models.text_pair, vocab_size=128,
          d_model=64, d_kv=16, d_ff=160, num_layers=2, num_decoder_layers=2, num_heads=4, num_experts=4,
          num_sparse_encoder_layers=1, num_sparse_decoder_layers=1),
]  # fmt: skip

MAMBA = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8}

STATES = [
    models.DECODERS[-1],
    small("bamba", "BambaForCausalLM", plain_text, **LLAMA, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16,
          mamba_d_state=8, mamba_chunk_size=8),
    small("falcon_h1", "FalconH1ForCausalLM", plain_text, **LLAMA, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16,
          mamba_d_state=8, mamba_chunk_size=8),
    small("falcon_mamba", "FalconMambaForCausalLM", models.short_text, **MAMBA, time_step_rank=8),
    small("mamba2", "Mamba2ForCausalLM", uncached_ids, **MAMBA, num_heads=8, head_dim=16, n_groups=1, chunk_size=8),
    small("qwen3_next", "Qwen3NextForCausalLM", plain_text, **EXPERTS, head_dim=16, linear_num_key_heads=2,
          linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
          shared_expert_intermediate_size=32, layer_types=["linear_attention", "full_attention"]),
    small("recurrent_gemma", "RecurrentGemmaForCausalLM", plain_text, **LLAMA, lru_width=64,
          block_types=["recurrent", "attention"], attention_window_size=16),
    small("rwkv", "RwkvForCausalLM", uncached_ids, **TINY_FFN, attention_hidden_size=64, context_length=32),
    small("zamba2", "Zamba2ForCausalLM", plain_text, **LLAMA, mamba_d_state=8, mamba_expand=2, mamba_ngroups=1,
          n_mamba_heads=8, chunk_size=8, layers_block_type=["mamba", "hybrid"], hybrid_layer_ids=[1],
          use_mamba_kernels=False),
]  # fmt: skip

ENCODERS = [
    *models.ENCODERS,
    small("convbert", "ConvBertModel", text, **TINY_FFN, embedding_size=32),
    small("deberta_v2", "DebertaV2Model", text, **TINY_FFN, relative_attention=True, pos_att_type=["c2p", "p2c"],
          position_buckets=8, max_position_embeddings=64),
    small("esm", "EsmModel", text, **TINY_FFN, pad_token_id=0, max_position_embeddings=64),
    small("funnel", "FunnelModel", text, vocab_size=128, d_model=64, n_head=4, d_head=16, d_inner=160,
          block_sizes=[1, 1], num_decoder_layers=1),
    small("layoutlm", "LayoutLMModel", text, **TINY_FFN),
    small("modernbert", "ModernBertModel", text, **TINY_FFN, pad_token_id=0, local_attention=8),
    small("mpnet", "MPNetModel", text, **TINY_FFN),
    small("roformer", "RoFormerModel", text, **TINY_FFN),
    small("squeezebert", "SqueezeBertModel", text, **TINY_FFN, embedding_size=64),
    small("xlnet", "XLNetModel", text, vocab_size=128, d_model=64, n_layer=2, n_head=4, d_inner=160),
]  # fmt: skip

T5 = {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 2, "num_heads": 4}

PAIRS = [
    *models.ENCODER_DECODERS[:3],
    small("blenderbot", "BlenderbotModel", models.text_pair, **models.BART_TINY),
    small("m2m_100", "M2M100Model", models.text_pair, **models.BART_TINY),
    small("marian", "MarianModel", models.text_pair, **models.BART_TINY, pad_token_id=0, decoder_start_token_id=0),
    small("mbart", "MBartModel", models.text_pair, **models.BART_TINY),
    small("pegasus", "PegasusModel", models.text_pair, **models.BART_TINY),
    small("umt5", "UMT5Model", models.text_pair, **T5),
]  # fmt: skip

WAVES = TINY_FFN | {
    "conv_dim": [32, 32], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip

SPEECH = [
    *models.ENCODER_DECODERS[3:],
    small("ast", "ASTModel", frames(64, "num_mel_bins", "input_values"), hidden_size=64, num_hidden_layers=2,
          num_attention_heads=4, intermediate_size=160, max_length=64, num_mel_bins=32, patch_size=8),
    small("encodec", "EncodecModel", one_wave, num_filters=8, hidden_size=32, codebook_dim=32, codebook_size=64,
          upsampling_ratios=[4, 2]),
    small("hubert", "HubertModel", waves, **WAVES),
    small("moonshine", "MoonshineModel", wave_pair, vocab_size=128, hidden_size=64, intermediate_size=160,
          encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4,
          decoder_num_attention_heads=4),
    small("speech_to_text", "Speech2TextModel", speech_pair, **models.BART_TINY, conv_channels=64,
          input_feat_per_channel=16, max_source_positions=64, max_target_positions=32),
    small("sew", "SEWModel", waves, **WAVES, squeeze_factor=2),
    small("wav2vec2", "Wav2Vec2Model", waves, **WAVES),
    small("wav2vec2_bert", "Wav2Vec2BertModel", frames(48, "feature_projection_input_dim"), hidden_size=64,
          num_hidden_layers=2, num_attention_heads=4, intermediate_size=160, feature_projection_input_dim=32),
    small("wavlm", "WavLMModel", waves, **WAVES),
]  # fmt: skip

VIT = TINY_VIT | {"intermediate_size": 160}

VISION = [
    *models.VISION,
    small("beit", "BeitModel", image, **VIT, use_relative_position_bias=True),
    small("bit", "BitModel", image, embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
          num_groups=4),
    small("convnext", "ConvNextModel", image, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]),
    small("cvt", "CvtModel", pixels(64), embed_dim=[16, 32, 64], depth=[1, 2, 3], num_heads=[1, 2, 4],
          cls_token=[False, False, True]),
    small("deit", "DeiTModel", image, **VIT),
    small("dinov3_vit", "DINOv3ViTModel", image, **VIT, num_register_tokens=2),
    small("dpt", "DPTModel", image, **VIT, is_hybrid=False),
    small("efficientnet", "EfficientNetModel", pixels(64), width_coefficient=0.5, depth_coefficient=0.5,
          hidden_dim=640),
    small("focalnet", "FocalNetModel", pixels(64), image_size=64, embed_dim=24, depths=[1, 1], focal_levels=[2, 2],
          focal_windows=[3, 3]),
    small("hiera", "HieraModel", pixels(64), image_size=[64, 64], embed_dim=16, depths=[1, 1, 1], num_heads=[1, 2, 4],
          mask_unit_size=[4, 4], query_stride=[2, 2], num_query_pool=2),
    small("levit", "LevitModel", image, hidden_sizes=[32, 48, 64], depths=[1, 1, 1], num_attention_heads=[2, 3, 4],
          key_dim=[8, 8, 8], image_size=64),
    small("mobilenet_v1", "MobileNetV1Model", image, depth_multiplier=0.25, image_size=64),
    small("mobilevit", "MobileViTModel", image, image_size=64, hidden_sizes=[32, 48, 64],
          neck_hidden_sizes=[16, 16, 24, 32, 48, 64, 96], num_attention_heads=4),
    small("mobilevitv2", "MobileViTV2Model", image, image_size=64, width_multiplier=0.25),
    small("poolformer", "PoolFormerModel", pixels(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    small("pvt_v2", "PvtV2Model", pixels(64), image_size=64, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
          num_attention_heads=[1, 2, 3, 4]),
    small("regnet", "RegNetModel", pixels(64), embedding_size=16, hidden_sizes=[32, 48, 64, 96], depths=[1, 2, 1, 1],
          groups_width=16),
    small("segformer", "SegformerForSemanticSegmentation", pixels(64), hidden_sizes=[16, 32, 48, 64],
          depths=[1, 1, 1, 1], decoder_hidden_size=32),
    small("siglip", "SiglipModel", image_and_words,
          text_config=TINY_FFN | {"max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2},
          vision_config=VIT),
    small("swin2sr", "Swin2SRForImageSuperResolution", pixels(32), image_size=32, embed_dim=24, depths=[1, 1],
          num_heads=[2, 2], window_size=4),
    small("swinv2", "Swinv2Model", image, image_size=32, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4],
          window_size=4),
    small("timesformer", "TimesformerModel", video, **VIT, num_frames=2),
    small("videomae", "VideoMAEModel", video, **VIT, num_frames=4),
]  # fmt: skip

QUERIES = {
    "d_model": 64, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 160, "decoder_ffn_dim": 160, "num_queries": 10,
}  # fmt: skip


def backbone() -> Config:
    sizes = {"embedding_size": 16, "hidden_sizes": [32, 48, 64, 96], "depths": [1, 1, 1, 1]}
    return transformers.ResNetConfig(**sizes, out_features=["stage2", "stage3", "stage4"])


def last_stage() -> Config:
    return transformers.ResNetConfig(hidden_sizes=[16, 32], depths=[1, 1], embedding_size=16, out_features=["stage2"])


DETECTION = [
    small("conditional_detr", "ConditionalDetrForObjectDetection", pixels(64), **QUERIES,
          backbone_config=last_stage(), use_timm_backbone=False, use_pretrained_backbone=False, backbone=None),
    small("deformable_detr", "DeformableDetrForObjectDetection", pixels(64), **QUERIES, num_feature_levels=3,
          backbone_config=backbone(), use_timm_backbone=False, use_pretrained_backbone=False, backbone=None),
    small("detr", "DetrForObjectDetection", pixels(64), **QUERIES, backbone_config=last_stage(),
          use_timm_backbone=False, use_pretrained_backbone=False, backbone=None),
    small("owlvit", "OwlViTForObjectDetection", image_and_words, projection_dim=64,
          text_config=TINY_FFN | {"max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2},
          vision_config=VIT),
    small("table_transformer", "TableTransformerForObjectDetection", pixels(64), **QUERIES,
          backbone_config=last_stage(), use_timm_backbone=False, use_pretrained_backbone=False, backbone=None),
    small("yolos", "YolosForObjectDetection", pixels(32), **(VIT | {"image_size": [32, 32]}), num_detection_tokens=10),
]  # fmt: skip

SWEEP: dict[str, list[ModelCase]] = {
    "dense decoders": DENSE,
    "mixtures of experts": MIXTURES,
    "state spaces": STATES,
    "encoders": ENCODERS,
    "encoders with decoders": PAIRS,
    "speech": SPEECH,
    "vision": VISION,
    "detection": DETECTION,
}
