// Carries the tests' precompiled header; see CMakeLists.txt.
int main() { return 0; }
