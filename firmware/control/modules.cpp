// Module table and the checks of a .jko. See modules.hpp; the format is jal/abi/module.h.
#include "firmware/control/modules.hpp"

#include <jal/abi/status.h>
#include <string.h>

#include <jal/hal/cores.hpp>

#include "firmware/control/text.hpp"

namespace jal::fw {
namespace {

bool is_terminated(const char (&text)[JAL_KERNEL_NAME_BYTES]) {
  return text[0] != '\0' && memchr(text, '\0', sizeof text) != nullptr;
}

bool check_kernel(const jal_kernel_entry& entry, uint32_t index, Text& why) {
  if (!is_terminated(entry.name) || !is_terminated(entry.symbol)) {
    why << "kernel " << index << ": name or symbol is empty or not terminated";
    return false;
  }
  if (entry.argument_bytes > JAL_ARGUMENT_BYTES_MAX || entry.argument_count > JAL_KERNEL_ARGUMENTS_MAX) {
    why << "kernel " << entry.name << ": " << entry.argument_count << " arguments of " << entry.argument_bytes
        << " bytes; limits are " << JAL_KERNEL_ARGUMENTS_MAX << " and " << JAL_ARGUMENT_BYTES_MAX;
    return false;
  }
  uint32_t reserved = 0;
  for (const uint32_t word : entry.reserved) reserved |= word;
  if (reserved != 0) {
    why << "kernel " << entry.name << ": a reserved field is set";
    return false;
  }
  uint32_t end = 0;
  for (uint32_t i = 0; i < entry.argument_count; ++i) {
    const jal_kernel_argument& argument = entry.arguments[i];
    const uint32_t fixed = jal_argument_type_bytes(argument.type);
    const bool known = fixed != 0 || argument.type == JAL_ARGUMENT_BYTES;
    const uint32_t align = fixed == 4 ? 4 : fixed == 0 ? 1 : 8;
    if (!known || (fixed != 0 && argument.bytes != fixed) || argument.bytes == 0 || argument.offset % align != 0 ||
        argument.offset < end || argument.bytes > entry.argument_bytes ||
        argument.offset > entry.argument_bytes - argument.bytes) {
      why << "kernel " << entry.name << ": argument " << i << " {type " << static_cast<uint32_t>(argument.type)
          << ", offset " << static_cast<uint32_t>(argument.offset) << ", bytes " << argument.bytes << "} is not legal";
      return false;
    }
    end = argument.offset + argument.bytes;
  }
  return true;
}

}  // namespace

int32_t check_module(const uint8_t* file, uint64_t bytes, jal_module_header* out_header, hal::FaultReport& fault) {
  Text why(fault.text, sizeof fault.text);
  jal_module_header& header = *out_header;
  if (bytes < sizeof header) {
    why << "the file has " << bytes << " bytes, its header alone needs " << static_cast<uint64_t>(sizeof header);
    return JAL_ERROR_BAD_MODULE;
  }
  memcpy(&header, file, sizeof header);
  if (header.magic != JAL_MODULE_MAGIC || header.version != JAL_MODULE_VERSION) {
    why << "magic ";
    why.hex(header.magic) << " version " << header.version << "; expected ";
    why.hex(JAL_MODULE_MAGIC) << " version " << JAL_MODULE_VERSION;
    return JAL_ERROR_BAD_MODULE;
  }
  if (header.file_bytes != bytes) {
    why << "the header says " << header.file_bytes << " bytes, the file has " << bytes;
    return JAL_ERROR_BAD_MODULE;
  }
  uint64_t hash = 0xcbf29ce484222325ull;
  const uint64_t skip = offsetof(jal_module_header, checksum);
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint8_t byte = i >= skip && i < skip + sizeof header.checksum ? 0 : file[i];
    hash = (hash ^ byte) * 0x100000001b3ull;
  }
  if (hash != header.checksum) {
    why << "checksum ";
    why.hex(hash) << " differs from the header's ";
    why.hex(header.checksum) << "; the file is damaged";
    return JAL_ERROR_BAD_MODULE;
  }
  uint64_t reserved = 0;
  for (const uint64_t word : header.reserved) reserved |= word;
  if (reserved != 0 || header.kernel_count < 1 || header.kernel_count > JAL_MODULE_KERNELS_MAX ||
      header.kernel_offset % 8 != 0 || header.kernel_offset > bytes ||
      header.kernel_count * sizeof(jal_kernel_entry) > bytes - header.kernel_offset) {
    why << "kernel table of " << header.kernel_count << " entries at " << header.kernel_offset
        << " does not lie in the file of " << bytes << " bytes, or a reserved field is set";
    return JAL_ERROR_BAD_MODULE;
  }
  for (const jal_module_section& section : header.sections) {
    if (section.arch == 0 && section.offset == 0 && section.bytes == 0 && section.reserved == 0) continue;
    if (section.arch == 0 || section.reserved != 0 || section.offset % 64 != 0 || section.offset > bytes ||
        section.bytes > bytes - section.offset) {
      why << "a section {arch " << section.arch << ", offset " << section.offset << ", bytes " << section.bytes
          << "} does not lie in the file of " << bytes << " bytes";
      return JAL_ERROR_BAD_MODULE;
    }
  }
  for (uint32_t i = 0; i < header.kernel_count; ++i) {
    jal_kernel_entry entry;
    memcpy(&entry, file + header.kernel_offset + i * sizeof entry, sizeof entry);
    if (!check_kernel(entry, i, why)) return JAL_ERROR_BAD_MODULE;
  }
  return JAL_OK;
}

/// First-fit room for `count` kernel entries among the live modules.
bool ModuleTable::place(uint32_t count, uint32_t* out_first) const {
  for (uint32_t first = 0; first + count <= kMaxKernels;) {
    uint32_t next = first;
    for (const Module& module : modules_) {
      if (module.is_used == 0 || module.first_kernel >= first + count ||
          module.first_kernel + module.kernel_count <= first)
        continue;
      if (module.first_kernel + module.kernel_count > next) next = module.first_kernel + module.kernel_count;
    }
    if (next == first) {
      *out_first = first;
      return true;
    }
    first = next;
  }
  return false;
}

int32_t ModuleTable::load(hal::Board& board, uint32_t client, const uint8_t* file, uint64_t bytes, uint32_t* out_id,
                          hal::FaultReport& fault) {
  jal_module_header header;
  const int32_t status = check_module(file, bytes, &header, fault);
  if (status != JAL_OK) return status;
  uint32_t index = 0;
  while (index < kMaxModules && modules_[index].is_used != 0) ++index;
  uint32_t first = 0;
  if (index == kMaxModules || !place(header.kernel_count, &first)) {
    Text(fault.text, sizeof fault.text) << "the device holds at most " << kMaxModules << " modules and " << kMaxKernels
                                        << " kernels";
    return JAL_ERROR_MODULE_LIMIT;
  }
  // The entries that dispatches use are copies that are checked as copies: the file is the client's.
  Text why(fault.text, sizeof fault.text);
  for (uint32_t i = 0; i < header.kernel_count; ++i) {
    jal_kernel_entry& entry = kernels_[first + i];
    memcpy(&entry, file + header.kernel_offset + i * sizeof entry, sizeof entry);
    if (!check_kernel(entry, i, why)) return JAL_ERROR_BAD_MODULE;
  }
  uint32_t code = 0;
  const int32_t loaded = hal::code_load(board, file, bytes, &code, fault);
  if (loaded != JAL_OK) return loaded;
  modules_[index] = {code, first, header.kernel_count, static_cast<uint16_t>(client), 1};
  *out_id = index + 1;
  return JAL_OK;
}

bool ModuleTable::unload(hal::Board& board, uint32_t client, uint32_t id) {
  if (id < 1 || id > kMaxModules) return false;
  Module& module = modules_[id - 1];
  if (module.is_used == 0 || module.client != client) return false;
  hal::code_unload(board, module.code);
  module.is_used = 0;
  return true;
}

void ModuleTable::unload_all(hal::Board& board, uint32_t client) {
  for (uint32_t id = 1; id <= kMaxModules; ++id) (void)unload(board, client, id);
}

const jal_kernel_entry* ModuleTable::find(uint32_t client, uint32_t id, uint32_t kernel, uint32_t* out_code) const {
  if (id < 1 || id > kMaxModules) return nullptr;
  const Module& module = modules_[id - 1];
  if (module.is_used == 0 || module.client != client || kernel >= module.kernel_count) return nullptr;
  *out_code = module.code;
  return &kernels_[module.first_kernel + kernel];
}

}  // namespace jal::fw
