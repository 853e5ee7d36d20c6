/** Holders that are stopped beyond their TTL and woken, with the guard of each kind of place in the way of what they write. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { PlaceKind } from '../../test/processes/guarded-place.ts'
import { startPostgres } from '../../test/servers/postgres-server.ts'
import { startRedis } from '../../test/servers/redis-server.ts'
import type { TestServer } from '../../test/servers/test-server.ts'
import type { Part, Step, StepOrder, StepOutcome } from '../part.ts'
import { runZombies, type ZombieRound } from './zombie-round.ts'

const WHOLE_MINUTES = 10
const HOLDERS_PER_STEP = 2_500
const HOLDERS_PER_ROUND = 125

function step(kind: PlaceKind): Step {
  return {
    name: `writes guarded on ${kind}`,
    minutes: WHOLE_MINUTES,
    run: (order) => run(kind, order),
  }
}

async function run(kind: PlaceKind, { minutes, say }: StepOrder): Promise<StepOutcome> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-zombies-'))
  const server = await serverOf(kind)
  const rounds: ZombieRound[] = []
  const untilMs = performance.now() + minutes * 60_000
  const total = (of: (round: ZombieRound) => number): number => {
    return rounds.reduce((sum, round) => sum + of(round), 0)
  }
  try {
    while (total(({ holders }) => holders) < HOLDERS_PER_STEP && performance.now() < untilMs) {
      const place = { kind, url: server?.url ?? directory }
      const number = rounds.length
      rounds.push(await runZombies({ directory, place, number, holders: HOLDERS_PER_ROUND }))
      say(`${total(({ holders }) => holders)} holders woken`)
    }
  } finally {
    await server?.close()
    fs.rmSync(directory, { recursive: true, force: true })
  }
  const held = total(({ stillHeld }) => stillHeld)
  const passed = total(({ stalePassed }) => stalePassed)
  const lost = total(({ unguardedLost }) => unguardedLost)
  return {
    counts: {
      'holders woken': total(({ holders }) => holders),
      'stale writes refused': total(({ staleRefused }) => staleRefused),
      'updates lost without a guard (control)': lost,
    },
    failures: [
      ...(held > 0 ? [`${held} holders believed in their lease when they were woken`] : []),
      ...(passed > 0 ? [`${passed} stale writes passed the guard of ${kind}`] : []),
    ],
    shortfalls: lost === 0 ? ['the control lost nothing'] : [],
  }
}

async function serverOf(kind: PlaceKind): Promise<TestServer | null> {
  if (kind === 'postgres') return startPostgres()
  return kind === 'redis' ? startRedis() : null
}

export const zombies: Part = {
  name: 'zombies',
  about:
    'Processes that hold 125 leases each, in a SQLite store, are stopped (SIGSTOP) beyond their TTL while others take the leases over and write, and are woken. The first thing that runs in a woken process, before any ' +
    'callback, reads the state of its leases: none may be `held`. Then it writes all the same: the guard must refuse every write, and beside it a number without a guard loses updates.',
  steps: (['sqlite', 'postgres', 'redis', 'file'] as const).map(step),
  atLeast: { 'holders woken': 10_000, 'stale writes refused': 10_000 },
}
