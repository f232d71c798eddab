-- Fields ---------------------------------------------------------------------------------------------------------------------

local F = {} -- by name without the prefix

local function field(name, make, label, ...)
	F[name] = make(NAME .. "." .. name, label, ...)
end

local wide = {} -- names that have more than 32 bits in some header
for _, t in pairs(TABLE) do
	for _, f in ipairs(t) do
		if f.bits > 32 then wide[f.name] = true end
	end
end

-- One field for all the headers that have the name; one more where they count other code points, under the same name.
local function key(f) return f.enum and f.name .. "/" .. f.enum or f.name end

for _, t in pairs(TABLE) do
	for _, f in ipairs(t) do
		local k, abbr, label = key(f), NAME .. "." .. f.name, string.gsub(f.name, "^%w+%.", "")
		if F[k] then -- another header has it as well
		elseif f.bytes then
			F[k] = ProtoField.bytes(abbr, label, base.NONE, f.doc)
		elseif wide[f.name] then
			F[k] = ProtoField.uint64(abbr, label, base.DEC, nil, nil, f.doc)
		else
			F[k] = ProtoField.uint32(abbr, label, base.DEC, f.enum and ENUM[f.enum] or nil, nil, f.doc)
		end
	end
end

local function number(name, label, values) field(name, ProtoField.uint32, label, base.DEC, values) end

number("ev", "Entropy value")
number("crc32c", "UET CRC")
number("crc.status", "UET CRC status", { [0] = "bad", [1] = "good", [2] = "not checked" })
number("udp_length", "UDP length before trimming")
number("stream", "Conversation")
number("clear_psn", "CLEAR_PSN")
number("start_psn", "Start_PSN")
number("ack_psn", "ACK_PSN")
number("sack_base_psn", "SACK base PSN")
number("sacked_psns", "Selectively acknowledged PSN")
number("mp_range", "MP_Range")
for _, name in ipairs({ "retx", "ar", "syn", "m", "nt", "p", "epsn", "isrod", "req" }) do
	number("flag_" .. name, string.upper(name))
end
for name, label in pairs({ payload = "Payload", ["tss.ciphertext"] = "Ciphertext", ["tss.icv"] = "ICV" }) do
	field(name, ProtoField.bytes, label)
end
local function frame(name, label, kind) field(name, ProtoField.framenum, label, base.NONE, kind) end
frame("acked_in", "Acknowledged in frame", frametype.ACK)
frame("acks", "Acknowledges frame", frametype.ACK)
frame("nacked_in", "Refused in frame", frametype.DUP_ACK)
frame("nacks", "Refuses frame", frametype.DUP_ACK)
frame("retransmits", "Retransmission of frame", frametype.RETRANS_PREV)
frame("answered_in", "Answered in frame", frametype.RESPONSE)
frame("answers", "Answers frame", frametype.REQUEST)
field("ack_time", ProtoField.relative_time, "Time since the frame was sent")

local list = {}
for _, f in pairs(F) do list[#list + 1] = f end
uet.fields = list

local X = {
	trimmed = ProtoExpert.new(NAME .. ".trimmed", "Trimmed by a switch", expert.group.SEQUENCE, expert.severity.NOTE),
	retx = ProtoExpert.new(NAME .. ".retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
	nack = ProtoExpert.new(NAME .. ".nack", "NACK", expert.group.SEQUENCE, expert.severity.WARN),
	short = ProtoExpert.new(NAME .. ".truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR),
	odd = ProtoExpert.new(NAME .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
	crc = ProtoExpert.new(NAME .. ".crc.bad", "UET CRC does not fit the packet", expert.group.CHECKSUM, expert.severity.ERROR),
	failed = ProtoExpert.new(NAME .. ".return_code.error", "The request failed", expert.group.RESPONSE_CODE, expert.severity.WARN),
}
local experts = {}
for _, x in pairs(X) do experts[#experts + 1] = x end
uet.experts = experts

local function generated(tree, name, value)
	local item = tree:add(F[name], value)
	item:set_generated()
	return item
end

-- bits cuts a number out of a header; more than 32 bits give a UInt64.
local function bits(header, off, n) return header:range(math.floor(off / 8), math.floor((off + n - 1) / 8) - math.floor(off / 8) + 1):bitfield(off % 8, n) end

-- present tells whether a header of len bytes has the field.
local function present(f, header, len)
	if f.off + f.bits > len * 8 then return false end
	for _, c in ipairs(f.when or {}) do
		if (c[4][bits(header, c[1], c[2])] or false) ~= c[3] then return false end
	end
	return true
end

local function flag_names(set, value)
	local names = {}
	for mask, name in pairs(set) do
		if bit.band(value, mask) ~= 0 then names[#names + 1] = name end
	end
	table.sort(names)
	return table.concat(names, " ")
end

local function show_number(f, range, tree, v)
	local n
	if f.little then
		n = range:le_uint()
	else
		n = range:bitfield(f.off % 8, f.bits)
	end
	v[f.name] = n
	local value = n
	if wide[f.name] and type(n) == "number" then value = UInt64.new(n) end
	local item = tree:add(F[key(f)], range, value)
	if f.signed and f.bits <= 16 and n >= 2 ^ (f.bits - 1) then item:append_text(string.format(" (%d)", n - 2 ^ f.bits)) end
	if f.flags and n ~= 0 then item:append_text(" (" .. flag_names(ENUM[f.flags], n) .. ")") end
end

-- show adds the fields that a header has, puts their values into v by name, and gives the header's item; nil where not all
-- of the header is there. len is the header's length where that is not fixed.
local function show(name, tvb, off, tree, v, len)
	local t = TABLE[name]
	len = len or t.len
	if tvb:len() - off < len then
		tree:add_proto_expert_info(X.short, string.format("%s: %d of %d bytes are there", name, math.max(0, tvb:len() - off), len))
		return nil
	end
	local header = tvb:range(off, len)
	local sub = tree:add(header, name)
	for _, f in ipairs(t) do
		if present(f, header, len) then
			local first = math.floor(f.off / 8)
			local range = header:range(first, math.floor((f.off + f.bits - 1) / 8) - first + 1)
			if f.bytes then
				sub:add(F[key(f)], range)
			else
				show_number(f, range, sub, v)
			end
		end
	end
	return sub
end
