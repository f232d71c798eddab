// Package e2e brings real labs up with the real binary and holds them to what the project promises: results to the
// nanosecond, a clock that leaves no trace, failures that repeat, and nothing left behind. It has tests only.
//
// UETLAB_E2E_RUNTIME chooses the runtime (embedded, the default, or docker), UETLAB_BIN a binary that is built already;
// otherwise the tests build one. They need root, except those that give it up themselves. Labs of the tests have names
// of their own; other labs on the machine are left alone. -short skips everything.
package e2e
