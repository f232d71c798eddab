// Package api is the contract between a lab daemon and its clients: plain JSON types, the errors that cross the
// wire, and a thin client over the lab's unix socket or over TCP with a bearer token. It decides nothing, keeps no state
// and starts no process; the daemon's side of it is fabric/control.
//
// Paths stand under /v1 and speak JSON, streams are JSON Lines; /metrics stands at the root. Numbers carry their unit in
// the key: …Ns are nanoseconds, …Bps bits per second, …Bytes bytes.
package api
