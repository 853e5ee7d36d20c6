/** `tenure run` at a terminal, which `script` of util-linux provides; only Linux tells what a process has started. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { isProcessAlive } from '../../src/runtime/system-runtime.ts'
import type { LeaseList } from '../../src/service/lease-api.ts'
import { MAIN, startProgram, workshop, type Running, type Workshop } from './tenure-process.ts'

/**
 * Starts a command that starts another and waits for it; the pid of the other is in the file `pid`. Neither heeds the
 * hang-up that the end of the terminal means.
 */
function startAtTerminal(shop: Workshop): Running {
  const work = `sh -c 'trap "" HUP; sleep 300 & echo $! > pid.new; mv pid.new pid; wait'`
  const line = `exec ${process.execPath} ${MAIN} run work:1 --grace 300ms -- ${work}`
  const options = { cwd: shop.directory, env: { TENURE_STORE: shop.storeUrl } }
  return startProgram(['script', '-qec', line, '/dev/null'], options)
}

/** Leaves the event loop room between two looks, so that the test's own timeout can end the wait. */
async function eventually(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}

async function grandchildOf(shop: Workshop): Promise<number> {
  const file = path.join(shop.directory, 'pid')
  await eventually(() => fs.existsSync(file))
  return Number(fs.readFileSync(file, 'utf8'))
}

async function leaseId(shop: Workshop): Promise<string> {
  const { leases }: LeaseList = await shop.json(['ls'])
  return leases[0]?.id ?? ''
}

/** The process id of `tenure run` itself, from what it started. */
function parentOf(pid: number): number {
  const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1])
}

describe.runIf(process.platform === 'linux')('what a command at a terminal has started', () => {
  it('ends with it when the lease is lost', async () => {
    const shop = workshop()
    const running = startAtTerminal(shop)
    const grandchild = await grandchildOf(shop)
    await shop.json(['revoke', await leaseId(shop)])
    expect((await running.ended).code).toBe(14)
    await eventually(() => !isProcessAlive(grandchild))
  })

  it('hears the signal that tenure run is sent', async () => {
    const shop = workshop()
    const running = startAtTerminal(shop)
    const grandchild = await grandchildOf(shop)
    process.kill(parentOf(parentOf(grandchild)), 'SIGTERM')
    expect((await running.ended).code).toBe(143)
    await eventually(() => !isProcessAlive(grandchild))
  })
})
