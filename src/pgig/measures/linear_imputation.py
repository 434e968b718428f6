"""ROAD's noisy linear imputation (Rong et al. 2022) of any set of pixels, all together.

Every removed pixel is the weighted mean of its eight neighbours, removed or not: 1/6 from each beside, above and below,
1/12 from each diagonal one, less where the image ends. That is one sparse system of equations for the whole set.
"""

from typing import Any

import numpy
from numpy.typing import NDArray

from pgig.errors import PgigError

_STEPS = tuple((down, across) for down in (-1, 0, 1) for across in (-1, 0, 1) if down or across)


def imputed(image: NDArray[Any], removed: NDArray[numpy.bool_]) -> NDArray[numpy.float64]:
    """The image [channels, height, width] with what stands to reason where pixels [height, width] were removed."""
    try:
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu
    except ImportError as error:
        raise PgigError(f"ROAD's imputation needs SciPy: pip install scipy ({error})") from error
    result = numpy.array(image, dtype=numpy.float64)
    if removed.all():
        raise PgigError("an image of which all pixels are removed cannot be imputed")
    if not removed.any():
        return result
    count = int(removed.sum())
    number = numpy.full(removed.shape, -1)
    number[removed] = numpy.arange(count)
    rows, columns, weights = [numpy.arange(count)], [numpy.arange(count)], [numpy.zeros(count)]
    known = numpy.zeros((count, len(image)))
    down, across = removed.nonzero()
    for step in _STEPS:
        weight = 1 / 12 if all(step) else 1 / 6
        y, x = down + step[0], across + step[1]
        inside = ((y >= 0) & (y < removed.shape[0]) & (x >= 0) & (x < removed.shape[1])).nonzero()[0]
        y, x = y[inside], x[inside]
        weights[0][inside] += weight  # the system's diagonal: all neighbours that there are
        unknown = removed[y, x]
        rows.append(inside[unknown])
        columns.append(number[y[unknown], x[unknown]])
        weights.append(numpy.full(int(unknown.sum()), -weight))
        known[inside[~unknown]] += weight * result[:, y[~unknown], x[~unknown]].T
    entries = numpy.concatenate(weights), (numpy.concatenate(rows), numpy.concatenate(columns))
    system = csc_array(entries, shape=(count, count))
    # symmetric with a heavy diagonal: this order of elimination and no pivots are several times faster
    solved = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}).solve(
        known
    )
    result[:, removed] = solved.T
    return result
