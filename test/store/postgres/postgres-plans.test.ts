/** A server that has no statistics of its tables yet must not walk them, however they have grown since it planned. */
import pg from 'pg'
import { expect, it } from 'vitest'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import type { Attempt, Kept } from '../../../src/store/speculation/backend.ts'
import { freshDatabase } from '../../servers/shared-servers.ts'
import { grantOf, leaseOf, releaseOf } from './hand-made.ts'

const ROUNDS = 60
const TOGETHER = 50
const ROWS_PER_ATTEMPT_MAX = 5

async function takeTurns(url: string, rounds: number): Promise<void> {
  const backend = await openPostgresBackend({ url, poolSize: 1 })
  const attempt = async (attempts: readonly Attempt[]): Promise<void> => {
    const { replies } = await backend.attempt({ settingsRevision: 1, attempts })
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['committed']))
  }
  for (let round = 0; round < rounds; round += 1) {
    const nowUs = Date.now() * 1_000
    const leases = Array.from({ length: TOGETHER }, (_, n) => leaseOf(`work:p-${n}`, { nowUs }))
    const held = leases.map((entry): Kept => ({ entry, version: 1, claim: 1 }))
    await attempt(leases.map((lease) => grantOf(lease, nowUs)))
    await attempt(held.map((kept) => releaseOf(kept, nowUs).attempt))
  }
  // Its connection tells what it has read when it ends.
  await backend.close()
}

it('a call looks at a few entries for each of its attempts, however many have ended', async () => {
  await using place = await freshDatabase()
  // Connections that are new plan anew, on tables of all sizes.
  for (const rounds of [1, 4, ROUNDS]) await takeTurns(place.url, rounds)
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  const { rows } = await client.query<{ read: string }>(
    `SELECT idx_tup_fetch AS read FROM pg_stat_user_tables WHERE relname = 'leases'`,
  )
  await client.end()
  expect(Number(rows[0]?.read)).toBeGreaterThan(0)
  expect(Number(rows[0]?.read)).toBeLessThan(ROUNDS * TOGETHER * 2 * ROWS_PER_ATTEMPT_MAX)
})
