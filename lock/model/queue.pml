/*
 * The fair queue: <lock>.queue holds a counter and a range of bytes that are
 * only ever locked, never written. A process locks the counter, takes ticket t,
 * locks byte Q+t, writes t+1, unlocks the counter, and then waits for a shared
 * lock of all bytes below its own. The kernel drops every range at death.
 *
 * Checked: one at a time at the head; nobody goes before a living process with
 * a lower ticket; no deadlock.
 *
 * COUNTER_FIRST  the counter is written and unlocked before the byte is locked
 * ONLY_THE_NEXT  waits for byte t-1 instead of all below t
 */
#ifndef PROCS
#define PROCS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define TICKETS (PROCS * ROUNDS + CRASHES + 1)

byte counter = 0;
byte counterLock = 0;      /* pid + 1 */
byte byteLock[TICKETS];    /* pid + 1 */
byte head = 0;
byte crashes = CRASHES;

#define STEP if :: crashes > 0 -> crashes--; goto killed :: true fi

inline below_free(n) {
	ok = true; i = 0;
	do
	:: i >= n -> break
	:: else -> if :: byteLock[i] != 0 -> ok = false; break :: else -> i++ fi
	od
}

proctype P(byte me) {
	byte t, i, round = 0;
	bool ok, queued = false, atHead = false;

again:
	atomic { counterLock == 0 -> STEP; counterLock = me + 1 };
	atomic { STEP; t = counter };
#ifdef COUNTER_FIRST
	atomic { STEP; counter = t + 1 };
	atomic { STEP; counterLock = 0 };
	atomic { STEP; byteLock[t] = me + 1; queued = true };
#else
	atomic { STEP; byteLock[t] = me + 1; queued = true };
	atomic { STEP; counter = t + 1 };
	atomic { STEP; counterLock = 0 };
#endif
	/* the kernel grants the shared lock when no byte below is locked */
wait:	atomic {
#ifdef ONLY_THE_NEXT
		(t == 0 || byteLock[t - 1] == 0) ->
#else
		below_free(t);
		if :: ok :: else -> goto wait fi;
#endif
		STEP;
		head++; atHead = true
	};
	atomic { assert(head == 1); below_free(t); assert(ok) };
	atomic { STEP; head--; atHead = false };
	atomic { STEP; byteLock[t] = 0; queued = false };
	round++;
	if :: round < ROUNDS -> goto again :: else -> goto end_ fi;

killed:	atomic {
		if :: atHead -> head--; atHead = false :: else fi;
		if :: queued && byteLock[t] == me + 1 -> byteLock[t] = 0 :: else fi;
		queued = false;
		if :: counterLock == me + 1 -> counterLock = 0 :: else fi
	};
	goto again;
end_:	skip
}

init {
	byte p = 0;
	atomic { do :: p < PROCS -> run P(p); p++ :: else -> break od }
}
