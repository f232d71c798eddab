// Package faults knows what is wrong with the links of a fabric, and what is going to be: it turns changes of links into
// the messages that the two ends and, where a link goes down or up, all switches get. The lab daemon and the simulator use
// the same code, so that a change made at a virtual time is the same in both to the last event. It also reads and writes
// the text form of impairments, "loss=0.1% delay=+2us". It sends nothing and knows no time but what it is given.
package faults
