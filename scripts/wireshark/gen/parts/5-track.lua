-- Conversations --------------------------------------------------------------------------------------------------------------

-- A conversation is a PDC: the two addresses, and the PDCID that each of them gave it. What is learnt of a frame in the first
-- pass is kept by its number.
local ends, frames, rudi, count

local function reset()
	ends, frames, rudi, count, sums = {}, {}, {}, 0, {}
end
reset()
uet.init = reset

-- before compares PSNs, which wrap at 2^32.
local function before(a, b) return a ~= b and (b - a) % 4294967296 < 2147483648 end

local function conversation(v, src, dst)
	local from = v.spdcid ~= 0 and src .. "|" .. dst .. "|" .. v.spdcid or nil
	local to = v.dpdcid and v.dpdcid ~= 0 and dst .. "|" .. src .. "|" .. v.dpdcid or nil
	local c, other = from and ends[from], to and ends[to]
	if other and (not c or c.id < other.id) then c = other end
	if c and v.start and c.start and (c.opener ~= from or c.start ~= v.start) then c = nil end -- the PDCID serves again
	if not c then
		c = { id = count, sent = {}, probes = {} }
		count = count + 1
	end
	if v.start and not c.start then c.start, c.opener = v.start, from end
	if from then ends[from] = c end
	if to then ends[to] = c end
	return c
end

local function direction(c, src)
	local d = c.sent[src]
	if not d then
		d = { first = {}, last = {}, waiting = {} }
		c.sent[src] = d
	end
	return d
end

local function sent(d, psn, number, me)
	local was = d.first[psn]
	if was then me.retransmits = was else d.first[psn] = number end
	d.last[psn] = number
	local w = d.waiting[psn] or {}
	w[#w + 1] = number
	d.waiting[psn] = w
end

local function acked(d, psn, number)
	for _, n in ipairs(d.waiting[psn] or {}) do frames[n].acked_in = number end
	d.waiting[psn] = nil
end

-- acknowledge marks what an ACK acknowledges: its ACK_PSN, all up to CACK_PSN, and the bits of its bitmap.
local function acknowledge(d, v, number, me)
	if v.ack_psn then
		me.acks = d.last[v.ack_psn]
		acked(d, v.ack_psn, number)
	end
	local done = {}
	for psn in pairs(d.waiting) do
		if not before(v.cack, psn) then done[#done + 1] = psn end
	end
	for _, psn in ipairs(done) do acked(d, psn, number) end
	for _, psn in ipairs(v.sacked or {}) do acked(d, psn, number) end
end

-- learn notes a packet in the first pass. v has kind ("send", "probe", "ack", "nack", "rudi_req", "rudi_resp", "other"), psn, spdcid, dpdcid, …
local function learn(v, pinfo)
	local number, src, dst = pinfo.number, tostring(pinfo.net_src), tostring(pinfo.net_dst)
	local me = { time = pinfo.rel_ts }
	frames[number] = me
	if v.kind == "rudi_req" then
		local key = src .. "|" .. dst .. "|" .. v.pkt_id
		me.retransmits, rudi[key] = rudi[key], number
		return me
	elseif v.kind == "rudi_resp" or v.kind == "rudi_nack" then
		local asked = rudi[dst .. "|" .. src .. "|" .. v.pkt_id]
		me[v.kind == "rudi_resp" and "answers" or "nacks"] = asked
		if asked then frames[asked][v.kind == "rudi_resp" and "answered_in" or "nacked_in"] = number end
		return me
	elseif not v.spdcid then
		return me
	end
	local c = conversation(v, src, dst)
	me.stream = c.id
	if v.kind == "send" then
		sent(direction(c, src), v.psn, number, me)
	elseif v.kind == "probe" then
		c.probes[src .. "|" .. v.opaque] = number
	elseif v.kind == "ack" then
		if v.opaque then
			me.acks = c.probes[dst .. "|" .. v.opaque]
			if me.acks then frames[me.acks].acked_in = number end
		end
		acknowledge(direction(c, dst), v, number, me)
	elseif v.kind == "nack" then
		me.nacks = direction(c, dst).last[v.psn]
		if me.nacks then frames[me.nacks].nacked_in = number end
	end
	return me
end

local quoted = false -- within ICMP

-- links shows what is known of a frame; forward references are there from the second pass on.
local function links(v, pinfo, tree)
	if quoted then return end
	local me = frames[pinfo.number]
	if not pinfo.visited then me = learn(v, pinfo) end
	if not me then return end
	if me.stream then generated(tree, "stream", me.stream) end
	for _, name in ipairs({ "retransmits", "acked_in", "acks", "nacked_in", "nacks", "answered_in", "answers" }) do
		if me[name] then generated(tree, name, me[name]) end
	end
	local of = me.acks or me.answers or me.nacks
	if of and frames[of] then
		local ns = math.floor((me.time - frames[of].time) * 1e9 + 0.5)
		if ns >= 0 then generated(tree, "ack_time", NSTime(math.floor(ns / 1000000000), ns % 1000000000)) end
	end
	if v.retx and me.retransmits then
		tree:add_proto_expert_info(X.retx, "Retransmission of frame " .. me.retransmits)
	elseif v.retx and v.kind ~= "ack" and v.kind ~= "nack" then
		tree:add_proto_expert_info(X.retx, "Retransmission")
	end
end
