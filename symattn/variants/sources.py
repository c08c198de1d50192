"""The papers that formulas and claims come from, cited once; a section or an equation is added."""

VASWANI = "Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762"
LUONG = (
    "Luong, Pham and Manning 2015, Effective Approaches to Attention-based Neural Machine "
    "Translation, arXiv 1508.04025"
)
BAHDANAU = (
    "Bahdanau, Cho and Bengio 2015, Neural Machine Translation by Jointly Learning to Align and "
    "Translate, arXiv 1409.0473"
)
ALIBI = (
    "Press, Smith and Lewis 2021, Train Short, Test Long: Attention with Linear Biases, "
    "arXiv 2108.12409"
)
GROUPED_QUERY = (
    "Ainslie et al. 2023, GQA: Training Generalized Multi-Query Transformer Models from "
    "Multi-Head Checkpoints, arXiv 2305.13245"
)
