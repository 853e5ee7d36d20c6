/** The chaos on deployments as people run them, with failovers. */
import { runChaos, type ChaosOptions } from '../chaos/chaos-run.ts'
import {
  FAILED_OVER,
  KILLED,
  SERVER_KILLED,
  SERVER_RESTARTED,
  SLOTS_MOVED,
  STOPPED,
} from '../chaos/troubles.ts'
import type { Part, Step } from '../part.ts'
import { bouncerStage, replicatedStage } from './postgres-topologies.ts'
import { clusterStage, sentinelStage, tlsStage } from './redis-topologies.ts'

const WHOLE_MINUTES = 7
/** While a failover is under way nothing can be done, for some seconds: the pauses are longer, so that most of the time is not that. */
const SELDOM = { pauseMsMax: 6_000 }
/** Sentinels leave a server that comes back alone for ten seconds. */
const SENTINEL_MINUTES = 12
const FOUR = { processes: 4, tasks: 32, ttlMs: 500 }
/** A holder whose grant was lost must still believe in it when the promoted standby grants again, or no overlap can be seen. */
const LONGER_THAN_FAILOVER_MS = 2_000
const TIMES_MIN = 30

/** The first trouble is the one that the topology is there for. */
function step(name: string, options: ChaosOptions, minutes = WHOLE_MINUTES): Step {
  const own = options.troubles[0]?.name ?? ''
  const run: Step['run'] = (order) =>
    runChaos({ ...options, timesMin: { [own]: TIMES_MIN } }, order)
  return { name, minutes, run }
}

export const topologies: Part = {
  name: 'topologies',
  about:
    'The same workers and the same checker on PostgreSQL with a standby that is promoted, behind PgBouncer, on a Redis Cluster of three masters and three replicas, behind three Sentinels, and by `rediss://`. Where replication is asynchronous ' +
    'the store’s page promises no more than that fences grow: overlaps are counted there as the control, which does not count when it sees none, and the guard must let no stale write pass. Each meets what it is there for at least thirty times. Operations are those of [chaos](#chaos). Valkey has no package for Debian 12: untested.',
  steps: [
    step('postgres, synchronous standby promoted', {
      ...{ open: replicatedStage({ isSynchronous: true }), ...FOUR, ...SELDOM },
      troubles: [FAILED_OVER, KILLED],
    }),
    step('postgres, control: asynchronous standby promoted', {
      ...{ open: replicatedStage({ isSynchronous: false }), ...FOUR, ...SELDOM, isControl: true },
      ...{ ttlMs: LONGER_THAN_FAILOVER_MS, tasks: 64 },
      troubles: [FAILED_OVER, FAILED_OVER, KILLED],
    }),
    step('postgres behind PgBouncer, session mode', {
      ...{ open: bouncerStage('session'), ...FOUR, troubles: [SERVER_KILLED, KILLED, STOPPED] },
    }),
    step('postgres behind PgBouncer, transaction mode', {
      ...{ open: bouncerStage('transaction'), ...FOUR, troubles: [SERVER_KILLED, KILLED, STOPPED] },
    }),
    step('redis cluster: slots moved', {
      ...{ open: clusterStage, ...FOUR, troubles: [SLOTS_MOVED, KILLED, STOPPED] },
    }),
    step('redis cluster, control: masters killed', {
      ...{ open: clusterStage, ...FOUR, ...SELDOM, isControl: true },
      troubles: [FAILED_OVER, KILLED],
    }),
    step(
      'redis behind Sentinels, control: primaries killed',
      {
        ...FOUR,
        open: sentinelStage,
        isControl: true,
        troubles: [FAILED_OVER, FAILED_OVER, KILLED],
      },
      SENTINEL_MINUTES,
    ),
    step('rediss', {
      ...{ open: tlsStage, ...FOUR, troubles: [SERVER_KILLED, SERVER_RESTARTED, KILLED, STOPPED] },
    }),
  ],
  atOnce: 2,
  atLeast: { failovers: 120 },
}
