// Package client is how a program uses the FEP of the node that it runs in: libfabric's objects in Go form, blocking and polling,
// safe for several goroutines. Data goes through shared memory; calls into the kernel happen only when one side sleeps.
//
//	fabric, domain   Open, Fabric.Domain      the FEP found; the attachment of this process to it
//	CQ               Domain.OpenCQ            completions: Read polls, ReadWait waits, C is a channel
//	Counter          Domain.OpenCounter       counts completions
//	AV               Domain.OpenAV            addresses of peers, by index
//	Endpoint         Domain.OpenEndpoint      Send, TSend, Write, Read, Atomic, … and Post, which has everything; Do posts and waits
//	SRX              Domain.OpenSRX           receives that several endpoints share
//	MR               Endpoint.RegisterMR      memory that peers may write and read
//	Memory           Domain.Alloc             memory that this process and the FEP share
//
// # Virtual time
//
// A lab runs in virtual time. By default a process is synchronous: from the moment at which the FEP hands it a completion until it
// waits again, the FEP stands still, and what it posts meanwhile happens at that very instant. Thinking costs nothing, a run is
// exactly repeatable, and equal to the same schedule played inside the FEP. Domain.Compute says that some work takes time.
// A program of several goroutines tells how many of them act by themselves: Domain.Go starts one more, Domain.Outside lets one wait
// for something that is not of this package. The FEP waits until all of them wait; a process that keeps it waiting for 10 s is set
// free. A free process (DomainOptions.Free, or any with --time real) acts whenever the FEP sees what it does.
//
// # Memory
//
// Buffers of Domain.Alloc are used where they lie. Other Go memory works everywhere as well: up to the inject size it is copied
// through shared memory, beyond that the FEP reads and writes this process with process_vm_readv and process_vm_writev, which the
// system may forbid (ErrAccess). A buffer belongs to the FEP from the call to its completion, unless FlagInject is given. Buffers on a stack are moved to the heap by the call itself.
//
// # Errors
//
// Completions carry the errors of package fep: fep.ErrTruncated, *fep.ResponseError, *fep.PDCError and the others. Calls
// return these and the ones of this package.
package client
