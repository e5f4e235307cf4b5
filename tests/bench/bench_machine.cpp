// The last line of every `./x bench`: what this machine could do in this run.
#include "tests/bench/report.hpp"

int main(int argc, char** argv) {
  jal::bench::Report report(argc, argv);
  report.add_machine();
  return 0;
}
