package wire

// Tables of the SES headers and extensions (uet-wire 8 and 9), and of the FEP address (12).

// headFields are the first 12 bytes of a request, without bytes 2 and 3; SMALL has no hd.
func headFields(hd bool, second ...Field) []Field {
	head := []Field{
		reserved("ses.reserved", 0, 2),
		enum("ses.opcode", 2, 6, "Opcode", "operation"),
		num("ses.ver", 8, 2, "version, 0"),
		num("ses.dc", 10, 1, "delivery complete"),
		num("ses.ie", 11, 1, "initiator error"),
		num("ses.rel", 12, 1, "relative addressing"),
	}
	if hd {
		head = append(head, num("ses.hd", 13, 1, "header_data is valid"))
	} else {
		head = append(head, reserved("ses.reserved", 13, 1))
	}
	return join(head, []Field{
		num("ses.eom", 14, 1, "last packet of the message"),
		num("ses.som", 15, 1, "first packet of the message"),
	}, second, []Field{
		num("ses.ri_generation", 32, 8, "generation of the resource index"),
		num("ses.job_id", 40, 24, "job"),
		reserved("ses.reserved", 64, 4),
		num("ses.pid_on_fep", 68, 12, "target process"),
		reserved("ses.reserved", 80, 4),
		num("ses.resource_index", 84, 12, "resource index"),
	})
}

// singleLength is what SMALL and MEDIUM have in place of message_id.
var singleLength = []Field{reserved("ses.reserved", 16, 2), num("ses.request_length", 18, 14, "bytes of the message")}

var tabSmall = &HeaderTable{Name: "REQUEST_SMALL", Layer: "ses", Codes: []uint64{uint64(NextRequestSmall)}, Bytes: 20,
	Fields: join(headFields(false, singleLength...), []Field{
		num("ses.buffer_offset", 96, 64, "offset in the target's buffer"),
	})}

var tabMedium = &HeaderTable{Name: "REQUEST_MEDIUM", Layer: "ses", Codes: []uint64{uint64(NextRequestMedium)}, Bytes: 32,
	Fields: join(headFields(true, singleLength...), []Field{
		num("ses.header_data", 96, 64, "completion data").when(isIn(13, 1, 1)),
		num("ses.buffer_offset", 96, 64, "offset in the target's buffer").when(isIn(13, 1, 0)),
		num("ses.initiator", 160, 32, "id used for matching"),
		num("ses.match_bits", 192, 64, "match_bits (tagged) or memory_key (RMA)"),
	})}

// tabStd is the standard header in all its forms: SOM and continuation (bit 15), deferrable sends and ready-to-restart
// (by opcode).
var tabStd = func() *HeaderTable {
	deferrable := []uint64{uint64(OpDeferrableSend), uint64(OpDeferrableTSend)}
	isDef, notDef := isIn(2, 6, deferrable...), notIn(2, 6, deferrable...)
	isRTR, notRTR := isIn(2, 6, uint64(OpDeferrableRTR)), notIn(2, 6, uint64(OpDeferrableRTR))
	som, cont := isIn(15, 1, 1), isIn(15, 1, 0)
	const ini, tgt = "initiator's restart token", "target's restart token, 0 on the first try"
	return &HeaderTable{Name: "REQUEST_STD", Layer: "ses", Codes: []uint64{uint64(NextRequestStd)}, Bytes: 44,
		Fields: join(headFields(true, num("ses.message_id", 16, 16, "number of the message")), []Field{
			num("ses.ini_restart_token", 96, 32, ini).when(isDef),
			num("ses.tgt_restart_token", 128, 32, tgt).when(isDef),
			num("ses.buffer_offset", 96, 64, "offset in the target's buffer").when(notDef),
			num("ses.initiator", 160, 32, "id used for matching"),
			num("ses.ini_restart_token", 192, 32, ini).when(isRTR),
			num("ses.tgt_restart_token", 224, 32, tgt).when(isRTR),
			num("ses.match_bits", 192, 64, "match_bits (tagged) or memory_key (RMA)").when(notRTR),
			num("ses.header_data", 256, 64, "completion data").when(som),
			reserved("ses.reserved", 256, 18).when(cont),
			num("ses.payload_length", 274, 14, "bytes in this packet").when(cont),
			num("ses.message_offset", 288, 32, "where this packet's first byte lies in the message").when(cont),
			num("ses.request_length", 320, 32, "bytes of the whole message"),
		})}
}()

func respFields(rest ...Field) []Field {
	return join([]Field{
		enum("ses.list", 0, 2, "List", "where the message was placed"),
		enum("ses.opcode", 2, 6, "RespOpcode", "kind of response"),
		num("ses.ver", 8, 2, "version, 0"),
		enum("ses.return_code", 10, 6, "ReturnCode", "result"),
	}, rest)
}

var tabResponse = &HeaderTable{Name: "RESPONSE", Layer: "ses", Codes: []uint64{uint64(NextResponse)}, Bytes: 12,
	Fields: respFields(
		num("ses.message_id", 16, 16, "of the request"),
		num("ses.ri_generation", 32, 8, "generation of the resource index"),
		num("ses.job_id", 40, 24, "job"),
		num("ses.modified_length", 64, 32, "bytes written"),
	)}

var tabResponseData = &HeaderTable{Name: "RESPONSE_DATA", Layer: "ses", Codes: []uint64{uint64(NextResponseData)}, Bytes: 20,
	Fields: respFields(
		num("ses.response_message_id", 16, 16, "target's own, or 0"),
		reserved("ses.reserved", 32, 8),
		num("ses.job_id", 40, 24, "job"),
		num("ses.read_request_message_id", 64, 16, "message_id of the request"),
		reserved("ses.reserved", 80, 2),
		num("ses.payload_length", 82, 14, "bytes in this packet"),
		num("ses.modified_length", 96, 32, "bytes in all"),
		num("ses.message_offset", 128, 32, "where this packet's first byte lies in the message"),
	)}

var tabResponseDataSmall = &HeaderTable{Name: "RESPONSE_DATA_SMALL", Layer: "ses",
	Codes: []uint64{uint64(NextResponseDataSmall)}, Bytes: 12, Fields: respFields(
		reserved("ses.reserved", 16, 2),
		num("ses.payload_length", 18, 14, "bytes in this packet"),
		reserved("ses.reserved", 32, 8),
		num("ses.job_id", 40, 24, "job"),
		num("ses.original_request_psn", 64, 32, "PSN of the request, which has no message ID"),
	)}

var tabRendezvous = &HeaderTable{Name: "rendezvous extension", Layer: "ext",
	Codes: []uint64{uint64(OpRendezvousSend), uint64(OpRendezvousTSend)}, Bytes: rendezvousLen, Fields: []Field{
		num("ext.eager_length", 0, 32, "payload bytes of the eager part"),
		num("ext.read_ri_generation", 32, 8, "generation of the resource index to read"),
		num("ext.read_pid_on_fep", 40, 12, "process to read from"),
		num("ext.read_resource_index", 52, 12, "resource index to read"),
		num("ext.read_offset", 64, 64, "offset to read from"),
		num("ext.read_match_bits", 128, 64, "match bits or memory key to read"),
	}}

var compareSwap = isIn(0, 8, uint64(AtomicCSwap), uint64(AtomicCSwapNE), uint64(AtomicCSwapLE), uint64(AtomicCSwapLT),
	uint64(AtomicCSwapGE), uint64(AtomicCSwapGT))

// tabAtomic: 4 bytes, 36 for the compare-and-swap family.
var tabAtomic = &HeaderTable{Name: "atomic extension", Layer: "ext", Codes: []uint64{uint64(OpAtomic),
	uint64(OpFetchingAtomic), uint64(OpTSendAtomic), uint64(OpTSendFetchAtomic)}, Bytes: atomicLen, Fields: []Field{
	enum("ext.amo_opcode", 0, 8, "AtomicOp", "atomic operation"),
	enum("ext.amo_datatype", 8, 8, "AtomicType", "datatype"),
	flags("ext.sem_ctl", 16, 8, "SemCtl", "semantic control"),
	reserved("ext.reserved", 24, 8),
	octets("ext.compare_value", 32, 128, "narrower types in the last octets").when(compareSwap),
	octets("ext.swap_value", 160, 128, "narrower types in the last octets").when(compareSwap),
}}

var tabFEPAddr = &HeaderTable{Name: "FEP address", Layer: "fep_address", Bytes: 32, Fields: []Field{
	num("fep.version", 0, 4, "0"),
	reserved("fep.reserved", 4, 4),
	flags("fep.flags", 8, 8, "FEPFlags", "what of the rest is valid"),
	flags("fep.caps", 16, 16, "FEPCaps", "capabilities"),
	{Name: "fep.address", Off: 32, Bits: 32, Kind: KindIP, Doc: "fabric address", When: []Cond{isIn(9, 1, 0)}},
	{Name: "fep.address", Off: 32, Bits: 128, Kind: KindIP, Doc: "fabric address", When: []Cond{isIn(9, 1, 1)}},
	reserved("fep.reserved", 160, 4),
	num("fep.pid_on_fep", 164, 12, "PIDonFEP"),
	reserved("fep.reserved", 176, 4),
	num("fep.start_ri", 180, 12, "first resource index"),
	reserved("fep.reserved", 192, 4),
	num("fep.num_ri", 196, 12, "number of resource indices"),
	reserved("fep.reserved", 208, 16),
	num("fep.initiator", 224, 32, "initiator ID"),
}}
