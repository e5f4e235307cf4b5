/* How true the model is, feature by feature, and the model file's figures with their sources. */
#ifndef JAL_FIDELITY_H
#define JAL_FIDELITY_H

#include <jal/api.h>

JAL_BEGIN_C

/* Row `index` of the table, from 0; INVALID_ARGUMENT past its end. level: exact, functional, approximate, not modelled.
 * Texts are valid until jal_shutdown. NOT_INITIALISED. */
JAL_API jal_status_t jal_fidelity_at(uint32_t index, const char** out_feature, const char** out_level,
                                     const char** out_text) JAL_NOEXCEPT;

/* A figure of the chip's model file by dotted name, e.g. "rate.hbm_per_slice". unit and source may be NULL; valid
 * until jal_shutdown. INVALID_ARGUMENT for an unknown name. */
JAL_API jal_status_t jal_model_value(const char* name, double* out_value, const char** out_unit,
                                     const char** out_source) JAL_NOEXCEPT;

JAL_END_C
#endif
