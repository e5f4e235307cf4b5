// Page ownership against a model that keeps an owner for every page.
#include "firmware/control/pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace jal::fw {
namespace {

constexpr std::uint32_t kSlices = 5, kPages = 70;  // no power of two, and the last word of the bitmap is partly used

struct Unmap {
  void operator()(PageTable* table) const { munmap(table, sizeof(PageTable)); }
};
std::unique_ptr<PageTable, Unmap> make_table(std::uint32_t slices, std::uint32_t pages) {
  void* memory =
      mmap(nullptr, sizeof(PageTable), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::unique_ptr<PageTable, Unmap> table(static_cast<PageTable*>(memory));
  table->reset(slices, pages);
  return table;
}

class Model {
 public:
  struct Grant {
    std::uint64_t mask, bytes;
    std::uint32_t first, pages, client;
  };
  bool is_free(std::uint64_t mask, std::uint32_t first, std::uint32_t pages) const {
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      for (std::uint32_t page = first; (mask >> slice & 1) != 0 && page < first + pages; ++page) {
        if (owner_[slice][page] != 0) return false;
      }
    }
    return true;
  }
  /// Where the table must put it: lowest for several slices, highest for one.
  bool place(std::uint64_t mask, std::uint32_t pages, std::uint32_t* first) const {
    const bool high = std::has_single_bit(mask);
    for (std::uint32_t n = 0; n + pages <= kPages; ++n) {
      *first = high ? kPages - pages - n : n;
      if (is_free(mask, *first, pages)) return true;
    }
    return false;
  }
  void set(std::uint64_t id, const Grant& grant, bool held) {
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      for (std::uint32_t page = grant.first; (grant.mask >> slice & 1) != 0 && page < grant.first + grant.pages; ++page)
        owner_[slice][page] = held ? id : 0;
    }
    if (held) {
      grants[id] = grant;
    } else {
      grants.erase(id);
    }
  }
  const Grant* at(std::uint32_t slice, std::uint64_t offset) const {
    const std::uint64_t id =
        offset < kPages * std::uint64_t{JAL_PAGE_BYTES} ? owner_[slice][offset / JAL_PAGE_BYTES] : 0;
    return id == 0 ? nullptr : &grants.at(id);
  }
  std::uint32_t count(std::uint32_t slice, std::uint32_t client) const {
    std::uint32_t pages = 0;
    for (std::uint64_t id : owner_[slice]) pages += id != 0 && grants.at(id).client == client;
    return pages;
  }
  std::uint32_t free_pages(std::uint32_t slice) const {
    std::uint32_t pages = 0;
    for (std::uint64_t id : owner_[slice]) pages += id == 0;
    return pages;
  }
  std::uint32_t largest_run(std::uint32_t slice) const {
    std::uint32_t best = 0, run = 0;
    for (std::uint64_t id : owner_[slice]) best = std::max(best, run = id == 0 ? run + 1 : 0);
    return best;
  }
  std::map<std::uint64_t, Grant> grants;

 private:
  std::uint64_t owner_[kSlices][kPages] = {};
};

class PagesProperty : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(PagesProperty, AgreesWithTheModelAtEveryStep) {
  std::mt19937_64 draw(GetParam());
  const auto table = make_table(kSlices, kPages);
  Model model;
  std::vector<std::uint64_t> dead;
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(draw() % n); };
  for (int step = 0; step < 3000; ++step) {
    const std::uint32_t action = below(100);
    if (action < 55) {
      Model::Grant grant = {};
      grant.mask = below(3) == 0 ? 1ull << below(kSlices) : below((1u << kSlices) - 1) + 1;
      grant.pages = below(20) == 0 ? below(kPages + 3) + 1 : below(6) + 1;
      grant.bytes = grant.pages * std::uint64_t{JAL_PAGE_BYTES} - 64 * below(JAL_PAGE_BYTES / 64);
      grant.client = below(3);
      std::uint64_t id = 0;
      Shortage shortage;
      const bool fits = model.place(grant.mask, grant.pages, &grant.first);
      const std::int32_t status = table->reserve(grant.mask, grant.pages, grant.bytes, grant.client, &id, &shortage);
      ASSERT_EQ(status, fits ? JAL_OK : JAL_ERROR_OUT_OF_DEVICE_MEMORY) << step;
      if (fits) {
        ASSERT_FALSE(model.grants.contains(id)) << "an id that is in use";
        ASSERT_EQ(table->find(id, grant.client)->first_page, grant.first) << step;
        model.set(id, grant, true);
      } else {
        ASSERT_TRUE(grant.mask >> shortage.slice & 1);
        ASSERT_EQ(shortage.largest_run, model.largest_run(shortage.slice));
        ASSERT_EQ(shortage.free_pages, model.free_pages(shortage.slice));
        for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
          ASSERT_TRUE((grant.mask >> slice & 1) == 0 || model.largest_run(slice) >= shortage.largest_run)
              << "a tighter slice";
          ASSERT_GE(shortage.best_free_pages, model.free_pages(slice));
        }
      }
    } else if (action < 95) {
      if (model.grants.empty()) continue;
      auto it = model.grants.begin();
      std::advance(it, below(model.grants.size()));
      const auto [id, grant] = *it;
      ASSERT_EQ(table->find(id, (grant.client + 1) % 3), nullptr) << "another client's id";
      ASSERT_NE(table->find(id, grant.client), nullptr);
      table->release(id);
      model.set(id, grant, false);
      dead.push_back(id);
      ASSERT_EQ(table->find(id, grant.client), nullptr);
    } else {
      // A client leaves, as detach() does it.
      const std::uint32_t client = below(3);
      table->for_each(client, [&](std::uint64_t id, const Reservation& reservation) {
        ASSERT_TRUE(model.grants.contains(id));
        ASSERT_EQ(reservation.client, client);
        model.set(id, model.grants[id], false);
        table->release(id);
      });
      for (const auto& [id, grant] : model.grants) ASSERT_NE(grant.client, client) << "a page was left behind";
    }
    for (int probe = 0; probe < 4; ++probe) {
      const std::uint32_t client = below(3), slice = below(kSlices);
      const std::uint64_t offset =
          below(2) == 0 ? below((kPages + 1) * JAL_PAGE_BYTES) : below(kPages + 1) * JAL_PAGE_BYTES;
      const std::uint64_t bytes = below(4) == 0 ? draw() : below(3 * JAL_PAGE_BYTES);
      const Model::Grant* grant = model.at(slice, offset);
      bool covers = false;
      if (grant != nullptr && grant->client == client) {
        const std::uint64_t into = offset - grant->first * std::uint64_t{JAL_PAGE_BYTES};
        covers = into <= grant->bytes && bytes <= grant->bytes - into;
      }
      ASSERT_EQ(table->covering(client, slice, offset, bytes) != nullptr, covers) << step;
      ASSERT_EQ(table->is_foreign(client, slice, offset), grant != nullptr && grant->client != client) << step;
      ASSERT_EQ(table->free_pages(slice), model.free_pages(slice));
      ASSERT_EQ(table->client_pages(client, slice), model.count(slice, client));
      ASSERT_EQ(table->largest_run(slice), model.largest_run(slice));
    }
  }
  for (const std::uint64_t id : dead) {
    for (std::uint32_t client = 0; client < 3; ++client)
      ASSERT_TRUE(model.grants.contains(id) || table->find(id, client) == nullptr);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, PagesProperty, ::testing::Range<std::uint64_t>(1, 7));

TEST(Pages, SlicesAndOffsetsBeyondTheChipAreNobodys) {
  const auto table = make_table(kSlices, kPages);
  std::uint64_t id = 0;
  Shortage shortage;
  ASSERT_EQ(table->reserve(1, kPages, 64, 0, &id, &shortage), JAL_OK);
  for (const std::uint32_t slice : {kSlices, 63u, 255u, UINT32_MAX}) {
    EXPECT_EQ(table->covering(0, slice, 0, 1), nullptr);
    EXPECT_FALSE(table->is_foreign(1, slice, 0));
  }
  for (const std::uint64_t offset :
       {std::uint64_t{kPages} << JAL_PAGE_SHIFT, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    EXPECT_EQ(table->covering(0, 0, offset, 1), nullptr);
    EXPECT_FALSE(table->is_foreign(1, 0, offset));
  }
}

TEST(Pages, TheLastReservationIsTheLimitAndRoomComesBack) {
  const auto table = make_table(JAL_MAX_SLICES, kMaxPagesPerSlice);
  Shortage shortage;
  std::uint64_t id = 0;
  for (std::uint32_t n = 0; n < kMaxReservations; ++n)
    ASSERT_EQ(table->reserve(1ull << n % JAL_MAX_SLICES, 1, 64, 0, &id, &shortage), JAL_OK);
  std::uint64_t more = 0;
  EXPECT_EQ(table->reserve(1, 1, 64, 0, &more, &shortage), JAL_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_GT(shortage.free_pages, 0u) << "the table is full, not the slice";
  table->release(id);
  EXPECT_EQ(table->reserve(1, 1, 64, 0, &more, &shortage), JAL_OK);
  EXPECT_NE(more, id);
}

}  // namespace
}  // namespace jal::fw
