// Package wireshark holds uet.lua, the Wireshark dissector of UET and of the lab's links, so that the binary can install
// it. It does not run Wireshark, and it makes nothing: the file is generated (see gen).
package wireshark

import _ "embed"

//go:generate go run ./gen uet.lua

// FileName is the name that the dissector has in a plugin folder.
const FileName = "uet.lua"

// Dissector is the text of uet.lua, which is under GPL-2.0-or-later as Wireshark is.
//
//go:embed uet.lua
var Dissector []byte
