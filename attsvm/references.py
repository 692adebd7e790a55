"""The one bibliography. Docstrings cite an entry by its key in brackets, [lawson1974nnls]."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """One published work: who, when, what, and where to find it."""

    authors: str
    year: int
    title: str
    where: str


REFERENCES: dict[str, Reference] = {
    # The four papers whose problems are solved here.
    "tarzanagh2023maxmargin": Reference(
        "D. Ataee Tarzanagh, Y. Li, X. Zhang, S. Oymak",
        2023,
        "Max-Margin Token Selection in Attention Mechanism",
        "NeurIPS 36; arXiv:2306.13596",
    ),
    "tarzanagh2023svm": Reference(
        "D. Ataee Tarzanagh, Y. Li, C. Thrampoulidis, S. Oymak",
        2023,
        "Transformers as Support Vector Machines",
        "arXiv:2308.16898",
    ),
    "julistiono2024mirror": Reference(
        "A. K. Julistiono, D. Ataee Tarzanagh, N. Azizan",
        2024,
        "Optimizing Attention with Mirror Descent: Generalized Max-Margin Token Selection",
        "arXiv:2410.14581",
    ),
    "huang2024nexttoken": Reference(
        "R. Huang, Y. Liang, J. Yang",
        2024,
        "Non-asymptotic Convergence of Training Transformers for Next-token Prediction",
        "NeurIPS 37; arXiv:2409.17335",
    ),
    # Which norm other ways of training lead to.
    "sheen2024flow": Reference(
        "H. Sheen, S. Chen, T. Wang, H. H. Zhou",
        2024,
        "Implicit Regularization of Gradient Flow on One-Layer Softmax Attention",
        "arXiv:2403.08699",
    ),
    "vasudeva2024rates": Reference(
        "B. Vasudeva, P. Deora, C. Thrampoulidis",
        2024,
        "Implicit Bias and Fast Convergence Rates for Self-attention",
        "arXiv:2402.05738",
    ),
    "li2024mechanics": Reference(
        "Y. Li, Y. Huang, M. E. Ildiz, A. S. Rawat, S. Oymak",
        2024,
        "Mechanics of Next Token Prediction with Self-Attention",
        "AISTATS 2024; arXiv:2403.08081",
    ),
    "huang2025outofcontext": Reference(
        "Y. Huang, H. Zhu, T. Guo, J. Jiao, S. Sojoudi, M. I. Jordan, S. Russell, S. Mei",
        2025,
        "Generalization or Hallucination? Understanding Out-of-Context Reasoning in Transformers",
        "NeurIPS 38; arXiv:2506.10887",
    ),
    "zhang2024adam": Reference(
        "C. Zhang, D. Zou, Y. Cao",
        2024,
        "The Implicit Bias of Adam on Separable Data",
        "NeurIPS 37; arXiv:2406.10650",
    ),
    "fan2025spectral": Reference(
        "C. Fan, M. Schmidt, C. Thrampoulidis",
        2025,
        "Implicit Bias of Spectral Descent and Muon on Multiclass Separable Data",
        "NeurIPS 38; arXiv:2502.04664",
    ),
    # Methods.
    "clarkson1936uniformly": Reference(
        "J. A. Clarkson",
        1936,
        "Uniformly Convex Spaces",
        "Transactions of the American Mathematical Society 40, 396-414",
    ),
    "lawson1974nnls": Reference(
        "C. L. Lawson, R. J. Hanson",
        1974,
        "Solving Least Squares Problems",
        "Prentice-Hall",
    ),
    "demmel1999svd": Reference(
        "J. Demmel, M. Gu, S. Eisenstat, I. Slapničar, K. Veselić, Z. Drmač",
        1999,
        "Computing the Singular Value Decomposition with High Relative Accuracy",
        "Linear Algebra and its Applications 299, 21-80",
    ),
    "dixon1982exact": Reference(
        "J. D. Dixon",
        1982,
        "Exact Solution of Linear Equations Using P-adic Expansions",
        "Numerische Mathematik 40, 137-141",
    ),
    "goldfarb1983dual": Reference(
        "D. Goldfarb, A. Idnani",
        1983,
        "A Numerically Stable Dual Method for Solving Strictly Convex Quadratic Programs",
        "Mathematical Programming 27, 1-33",
    ),
    "cryer1971solution": Reference(
        "C. W. Cryer",
        1971,
        "The Solution of a Quadratic Programming Problem Using Systematic Overrelaxation",
        "SIAM Journal on Control 9, 385-392",
    ),
    "eckstein1992douglas": Reference(
        "J. Eckstein, D. P. Bertsekas",
        1992,
        "On the Douglas-Rachford Splitting Method and the Proximal Point Algorithm for Maximal "
        "Monotone Operators",
        "Mathematical Programming 55, 293-318",
    ),
    "kelley1960cutting": Reference(
        "J. E. Kelley",
        1960,
        "The Cutting-Plane Method for Solving Convex Programs",
        "Journal of the Society for Industrial and Applied Mathematics 8, 703-712",
    ),
    "mehrotra1992interior": Reference(
        "S. Mehrotra",
        1992,
        "On the Implementation of a Primal-Dual Interior Point Method",
        "SIAM Journal on Optimization 2, 575-601",
    ),
    "ball1994sharp": Reference(
        "K. Ball, E. A. Carlen, E. H. Lieb",
        1994,
        "Sharp Uniform Convexity and Smoothness Inequalities for Trace Norms",
        "Inventiones Mathematicae 115, 463-482",
    ),
    "higham2002accuracy": Reference(
        "N. J. Higham",
        2002,
        "Accuracy and Stability of Numerical Algorithms",
        "SIAM, second edition",
    ),
    "hunter2004mm": Reference(
        "D. R. Hunter",
        2004,
        "MM Algorithms for Generalized Bradley-Terry Models",
        "Annals of Statistics 32, 384-406",
    ),
    "hsieh2008dual": Reference(
        "C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan",
        2008,
        "A Dual Coordinate Descent Method for Large-scale Linear SVM",
        "ICML 2008, 408-415",
    ),
}
