// Converted weights on disk, so that a second start neither decodes nor quantises.
//
// What it is not: needed. Without it, or on a full disk, the weights are converted again.
// Invariant: a file is complete or absent (written beside, then renamed), and its bytes are used only after its
// checksum (XXH3-64) and its key (SHA-256 of the model, format, version, layout) hold. Two processes may write the same
// file: the last rename wins. Place: $XDG_CACHE_HOME/jal/weights, else ~/.cache/jal/weights.
#pragma once
#include <functional>
#include <string>

#include "samples/01_llm/known_models.hpp"
#include "samples/01_llm/weights.hpp"

namespace jal::llm {

/// $XDG_CACHE_HOME/jal, else $HOME/.cache/jal; empty when neither variable is set (then nothing is cached).
std::string cache_folder();

/// Receives one line about what the cache did or could not do.
using Notice = std::function<void(const std::string&)>;

/// The model's weights in `format`: from the cache, else converted on `threads` threads and then stored. `source_hash`
/// is the SHA-256 of the model file. A damaged or foreign cache file, a full disk or a folder that cannot be written
/// are said through `say` and do no harm. `folder` is the cache's folder (cache_folder() + "/weights"); empty: no
/// cache.
Weights load_weights(const ModelTensors& tensors, WeightFormat format, const Sha256& source_hash, unsigned threads,
                     const std::string& folder, const Notice& say);

/// Path of the file in `folder` for that key.
std::string cache_path(const std::string& folder, WeightFormat format, const Sha256& source_hash);

}  // namespace jal::llm
