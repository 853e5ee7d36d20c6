/** Chaos on real stores: which run meets which trouble. */
import type { Part, Step } from '../part.ts'
import { runChaos, type ChaosOptions } from './chaos-run.ts'
import {
  duplicatingStage,
  forgetfulRedisStage,
  httpStage,
  postgresStage,
  redisAcrossLinkStage,
  redisStage,
  postgresWithClockStage,
  redisWithClockStage,
  sqliteStage,
} from './stage.ts'
import * as troubles from './troubles.ts'

const { KILLED, STOPPED, SERVER_KILLED, SERVER_STOPPED, SERVER_RESTARTED } = troubles
const { CUT, SLOW, REPLY_LOST, REPLY_HALVED, CALL_LATE, SILENCE } = troubles
const PROCESSES = [KILLED, STOPPED]
const SERVERS = [SERVER_KILLED, SERVER_STOPPED, SERVER_RESTARTED]
const NETWORK = [CUT, SLOW, REPLY_LOST, REPLY_HALVED, CALL_LATE, SILENCE]
/** A call is heard twice: its client sends it again because it was cut off. */
const TWICE = [CALL_LATE, REPLY_HALVED, REPLY_LOST]
const WHOLE_MINUTES = 6

function step(name: string, options: ChaosOptions): Step {
  return { name, minutes: WHOLE_MINUTES, run: (order) => runChaos(options, order) }
}

/** Where a call takes longer than a TTL, on a machine with much other work, all leases are over before they arrive. */
const EIGHT = { processes: 8, tasks: 16, ttlMs: 500 }
const FOUR = { processes: 4, tasks: 32, ttlMs: 500 }

export const chaos: Part = {
  name: 'chaos',
  about:
    'Worker processes on real stores take leases, renew them, write through a guard and let go, while processes, servers, the network, clocks ' +
    'and disks fail. At least 30 % of the grants end by expiry, and a run below 200 operations a second does not count. An *operation* is a grant, a renewal, a refusal, the end of a hold (released or lost) or a guarded write to a local table (taken or refused), as the workers log them; *calls of the store*, where a row has them, are the grants, renewals, releases and refusals that the store answered. Each worker logs what it ' +
    'believes with its own clock, and a checker that knows nothing of Tenure compares the logs: no two holders at one moment, fences that grow, no ' +
    'stale write through the guard, no history that cannot be decided. In runs called *control* the trouble is outside of what the store promises: overlaps are counted there, and the guard alone must hold; a control that sees none does not count.',
  steps: [
    step('sqlite, 1 process: killed and stopped', {
      ...{ open: sqliteStage, processes: 1, tasks: 64, troubles: PROCESSES },
    }),
    step('sqlite, 8 processes: killed and stopped', {
      ...{ open: sqliteStage, ...EIGHT, troubles: PROCESSES },
    }),
    step('sqlite, 8 processes: clocks of workers set', {
      ...{ open: sqliteStage, ...EIGHT, setsWorkerClocks: true },
      troubles: [troubles.WORKER_CLOCK_SET, ...PROCESSES],
    }),
    step('sqlite, 8 processes: disk, descriptors, memory', {
      ...{ open: sqliteStage, ...EIGHT, hasSmallDisk: true },
      troubles: [
        troubles.SYNC_FAILS,
        troubles.READ_ONLY,
        troubles.DISK_FULL,
        troubles.NO_DESCRIPTORS,
        troubles.NO_MEMORY,
      ],
    }),
    step('postgres: processes, server, network', {
      ...{ open: postgresStage, ...FOUR, troubles: [...PROCESSES, ...SERVERS, ...NETWORK] },
    }),
    step('redis: processes, server, network', {
      ...{ open: redisStage, ...FOUR, troubles: [...PROCESSES, ...SERVERS, ...NETWORK] },
    }),
    step('http before sqlite: processes, server, network', {
      ...{
        open: httpStage(sqliteStage),
        ...FOUR,
        troubles: [...PROCESSES, ...SERVERS, ...NETWORK],
      },
    }),
    step('http before redis: processes, server, network', {
      ...{ open: httpStage(redisStage), ...FOUR, troubles: [...PROCESSES, ...SERVERS, ...NETWORK] },
    }),
    step('http before sqlite: calls duplicated', {
      ...{ open: duplicatingStage(sqliteStage), ...FOUR },
      troubles: [troubles.DUPLICATED, KILLED, STOPPED, CUT, ...TWICE],
    }),
    step('postgres: calls delivered twice', {
      ...{ open: postgresStage, ...FOUR, troubles: [...TWICE, KILLED], pauseMsMax: 300 },
    }),
    step('redis: calls delivered twice', {
      ...{ open: redisStage, ...FOUR, troubles: [...TWICE, KILLED], pauseMsMax: 300 },
    }),
    step('redis: one-way partitions', {
      ...{ open: redisAcrossLinkStage, ...FOUR, troubles: [troubles.ONE_WAY, KILLED, STOPPED] },
    }),
    step('redis, control: killed without its data', {
      ...{ open: forgetfulRedisStage, ...FOUR, isControl: true, troubles: [KILLED, SERVER_KILLED] },
    }),
    step('postgres, control: the clock of the server set', {
      ...{ open: postgresWithClockStage, ...FOUR, isControl: true },
      troubles: [KILLED, troubles.SERVER_CLOCK_SET],
    }),
    step('postgres, control: the clock of the server runs 5 % wrong', {
      ...{ open: postgresWithClockStage, ...FOUR, isControl: true },
      troubles: [KILLED, troubles.SERVER_CLOCK_RATE],
    }),
    step('redis, control: the clock of the server set', {
      ...{ open: redisWithClockStage, ...FOUR, isControl: true },
      troubles: [KILLED, troubles.SERVER_CLOCK_SET],
    }),
    step('redis: clocks of workers run 5 % fast', {
      ...{ open: redisStage, ...FOUR, workerClockRate: 1.05, troubles: PROCESSES },
    }),
    step('redis, control: clocks of workers run 5 % slow', {
      ...{ open: redisStage, ...FOUR, workerClockRate: 0.95, isControl: true, troubles: PROCESSES },
    }),
  ],
  atOnce: 2,
  atLeast: { operations: 3_200_000 },
}
