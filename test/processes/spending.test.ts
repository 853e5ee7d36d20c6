/** Two processes spend one budget at once, on every store that processes can share. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it, onTestFinished } from 'vitest'
import { openTenure } from '../../src/index.ts'
import { foldLedger } from '../../src/ledger/fold.ts'
import { CONTENDED_STORES } from './contention-stores.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/spend-worker.js')
const SPENDINGS = 200

interface Spender {
  readonly process: ChildProcess
  readonly lines: AsyncIterator<string>
}

async function startSpender(url: string, leaseId: string): Promise<Spender> {
  const child = spawn(process.execPath, [WORKER, url, 'ann', leaseId], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(async () => {
    if (child.exitCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  expect((await lines.next()).value).toBe('ready')
  return { process: child, lines }
}

it.each(CONTENDED_STORES.map((store) => [store.name, store] as const))(
  'on %s all of a budget is spent, and no more',
  async (_name, store) => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-spending-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    await using place = await store.open(directory)
    const { url } = place
    await using tenure = await openTenure(url, { holder: 'boss' })
    const root = await tenure.acquire('work:W-1', { ttlMs: 60_000 })
    // The last of the tokens are too few for another spending: neither they nor a tool call may be taken.
    const budget = { tokens: SPENDINGS * 7 + 3, toolCalls: SPENDINGS + 5 }
    const child = await root.derive({ holder: 'ann', session: 'ann', budget })
    const spenders = [await startSpender(url, child.id), await startSpender(url, child.id)]
    for (const spender of spenders) spender.process.stdin?.write('go\n')
    const told = await Promise.all(
      spenders.map(async ({ lines }) => {
        const line = (await lines.next()).value as string
        return JSON.parse(line) as { spent: number; code: string }
      }),
    )
    expect(told.map(({ code }) => code)).toEqual(['BUDGET_EXHAUSTED', 'BUDGET_EXHAUSTED'])
    expect(told.reduce((sum, { spent }) => sum + spent, 0)).toBe(SPENDINGS)
    const used = { tokens: SPENDINGS * 7, toolCalls: SPENDINGS }
    expect((await tenure.get(child.id))?.delegation?.used).toEqual(used)
    const events = (await tenure.history({ limit: 1_000, refusals: false })).map(
      ({ event }) => event,
    )
    expect(foldLedger(events).get(child.id)?.delegation?.used).toEqual(used)
  },
)
