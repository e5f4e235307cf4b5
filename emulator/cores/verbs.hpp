// The verb tables of a core: plain, and with the sanitizers' checks. Contract: jal/kernel/core_abi.h.
#pragma once
#include <jal/abi/tensor.h>
#include <jal/kernel/core_abi.h>

namespace jal::emu {

const jal_core_verbs* core_verbs(bool is_sanitized);

// Parts of the table that lie in files of their own.
template <bool kSanitize>
jal_ev vector_verb(jal_core* core, const jal_vec_op* op, jal_after after, const jal_site* site);  // vector_verb.cpp
template <bool kSanitize>
jal_ev collective_verb(jal_core* core, const jal_coll_op* op, jal_after after, const jal_site* site);  // collective.cpp

}  // namespace jal::emu
