/*
 * The fence of a lease: a file with two slots {seq, token, holder, state}, of
 * which the greater valid sequence number counts and the other one is
 * overwritten; a lock on the file, exclusive for transitions, shared for changes
 * by a holder; and the lease's record.
 *
 * A step is a system call, but the write of a slot is two: a loss of power, or
 * the end of a client of a network file system, may leave it torn. A process may
 * be killed before any step, CRASHES times in all, and starts again; its locks
 * go with it. Time is left out: whoever looks at a lease may find it run out, and
 * every holder may stand still for as long as it likes. So what holds here holds
 * without any clock.
 *
 * Checked: each token is greater than all that were returned before; once one was
 * returned, no change with a lower one is made; no change is made by a holder
 * whose record was evicted; there is always a valid slot; all finish.
 *
 * Each of these takes one rule out; run.sh expects an error for it:
 *
 * TOKEN_AFTER_EVICTION  evict in one transition, issue the token in the next
 * SINGLE_SLOT           the slot that counts is overwritten
 * NO_TRANSITION_LOCK    no lock around transitions
 * NO_CHANGE_LOCK        a change compares the token without the shared lock
 * RECHECK_NOTHING       no look at the slot under the lock: a transition judges
 *                       and counts by what was seen before it
 */

#ifndef PROCS
#define PROCS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef CHANGES
#define CHANGES 1
#endif
#ifndef CRASHES
#define CRASHES 2
#endif

#define NOBODY 255

byte seq[2], token[2], holder[2];  /* holder: NOBODY when free */
bool valid[2];
byte record = 0;                   /* the token of the lease whose record it is, 0: none */

byte exclusive = NOBODY, shared = 0;
byte issued = 0;                   /* the greatest token that was returned */
byte crashes = CRASHES;

#define CURRENT (valid[0] && (!valid[1] || seq[0] > seq[1]) -> 0 : 1)

#define STEP if :: crashes > 0 -> crashes--; goto killed :: true fi

#ifdef SINGLE_SLOT
#define TARGET cur
#else
#define TARGET (1 - cur)
#endif

#ifdef NO_TRANSITION_LOCK
#define LOCK skip
#else
#define LOCK exclusive == NOBODY && shared == 0 -> exclusive = me
#endif
#define UNLOCK if :: exclusive == me -> exclusive = NOBODY :: else fi

inline read_slots() {
	assert(valid[0] || valid[1]);
	cur = CURRENT
}

proctype P(byte me) {
	byte cur, next, mine = 0, seenSeq, seenToken, s;
	byte round = 0, change;
	bool inside = false;

again:	/* look without a lock; the lease is free, or has run out */
	atomic { STEP; read_slots(); seenSeq = seq[cur]; seenToken = token[cur] };
	atomic { LOCK; STEP };
	atomic { STEP; read_slots();
#ifndef RECHECK_NOTHING
		if
		:: seq[cur] != seenSeq -> UNLOCK; goto again
		:: else
		fi;
		seenToken = token[cur]
#endif
	};
	next = seenToken + 1;
#ifdef TOKEN_AFTER_EVICTION
	/* the record changes hands first, and the token comes later */
	atomic { STEP; record = next };
	atomic { STEP; UNLOCK };
	atomic { LOCK; STEP };
	atomic { STEP; read_slots(); if :: seq[cur] != seenSeq -> UNLOCK; goto again :: else fi };
#endif
	/* issue: the older slot becomes the one that counts */
	atomic { STEP; s = TARGET; seenSeq = seq[cur]; valid[s] = false };
	atomic { STEP; seq[s] = seenSeq + 1; token[s] = next; holder[s] = me; valid[s] = true };
#ifndef TOKEN_AFTER_EVICTION
	atomic { STEP; record = 0 };
	atomic { STEP; record = next };
#endif
	atomic { STEP; UNLOCK; assert(next > issued); issued = next; mine = next };

	change = 0;
	do
	:: change == CHANGES -> break
	:: else ->
		change++;
#ifndef NO_CHANGE_LOCK
		atomic { exclusive == NOBODY -> STEP; shared++; inside = true };
#endif
		atomic { STEP; read_slots();
			if
			:: token[cur] != mine || holder[cur] != me -> goto fenced
			:: else
			fi };
		/* the change itself */
		atomic { STEP; assert(mine >= issued); assert(record == mine) };
#ifndef NO_CHANGE_LOCK
		atomic { STEP; shared--; inside = false }
#endif
	od;

	/* release: the token stays */
	atomic { LOCK; STEP };
	atomic { STEP; read_slots();
		if
		:: token[cur] != mine || holder[cur] != me -> UNLOCK; goto done
		:: else
		fi };
	atomic { STEP; if :: record == mine -> record = 0 :: else fi };
	atomic { STEP; s = TARGET; seenSeq = seq[cur]; valid[s] = false };
	atomic { STEP; seq[s] = seenSeq + 1; token[s] = mine; holder[s] = NOBODY; valid[s] = true };
	atomic { STEP; UNLOCK };
	goto done;

fenced:	atomic { if :: inside -> shared--; inside = false :: else fi };
done:	round++;
	mine = 0;
	if
	:: round < ROUNDS -> goto again
	:: else -> goto end
	fi;

killed:	atomic {
		UNLOCK;
		if :: inside -> shared--; inside = false :: else fi;
		mine = 0;
		goto again
	};
end:	skip
}

init {
	byte p = 0;
	atomic {
		valid[0] = true; seq[0] = 1; holder[0] = NOBODY; holder[1] = NOBODY;
		do
		:: p == PROCS -> break
		:: else -> run P(p); p++
		od
	}
}
