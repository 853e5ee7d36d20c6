/**
 * One worker of the chaos run: acquires one of a few files, writes while it holds it, releases, and logs what it
 * believes. It may be killed or stopped at any moment. After a pause it looks at its lease before it does anything;
 * a write that it had under way when it was stopped is tried all the same, as a real program's would be. It goes on until
 * its standard input ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLeaseError, openTenure, type Lease, type Tenure } from '../../src/index.ts'
import { ChaosLog, nowUs } from './chaos-log.ts'
import { FencedFiles } from './fenced-files.ts'

const [store = '', writes = '', logPath = '', holder = ''] = process.argv.slice(2)
const TTL_MS = 400
const FILES = ['file:/tree/a.ts', 'file:/tree/b.ts', 'file:/tree/c.ts']

let isOver = false
process.stdin.resume().once('end', () => (isOver = true))
const log = new ChaosLog(logPath)
const files = await FencedFiles.open(writes)

async function work(tenure: Tenure): Promise<void> {
  while (!isOver) {
    const resource = FILES[Math.floor(Math.random() * FILES.length)] ?? ''
    const acquired = tenure.acquire(resource, { ttlMs: TTL_MS, waitMs: 1_500 })
    const lease = await unlessRefused(acquired)
    if (lease !== null) await hold(lease)
  }
}

/** Null when the call was refused or the store was away, as a program that means to go on takes it. */
async function unlessRefused<Answer>(call: Promise<Answer>): Promise<Answer | null> {
  try {
    return await call
  } catch (error) {
    if (!isLeaseError(error)) throw error
    const { code, retryable } = error
    if (!retryable && code !== 'LEASE_EXPIRED' && code !== 'LEASE_LOST') throw error
    if (code.startsWith('STORE_')) {
      log.write({ kind: 'error', atUs: nowUs(), code })
      await sleep(20)
    }
    return null
  }
}

async function hold(lease: Lease): Promise<void> {
  const { id: leaseId, resource, fence } = lease
  const untilUs = nowUs() + lease.remainingMs * 1000
  log.write({ kind: 'start', atUs: nowUs(), resource, leaseId, fence, untilUs })
  let ended = false
  const end = (why: string): void => {
    if (!ended) log.write({ kind: 'end', atUs: nowUs(), leaseId, why })
    ended = true
  }
  lease.on('renewed', () => {
    const renewedUntilUs = nowUs() + lease.remainingMs * 1000
    if (!ended) log.write({ kind: 'renewed', atUs: nowUs(), leaseId, untilUs: renewedUntilUs })
  })
  lease.on('lost', () => end('lost'))
  const steps = 1 + Math.floor(Math.random() * 8)
  for (let step = 0; step < steps; step += 1) {
    write(lease)
    await sleep(Math.random() * 40)
  }
  end('released')
  await unlessRefused(lease[Symbol.asyncDispose]())
}

function write(lease: Lease): void {
  const { id: leaseId, resource, fence } = lease
  const late = lease.state === 'lost'
  const accepted = files.write(resource, fence)
  log.write({ kind: 'write', atUs: nowUs(), leaseId, late, accepted })
}

async function open(): Promise<Tenure> {
  for (;;) {
    const tenure = await unlessRefused(openTenure(store, { holder, claimWindowMs: 300 }))
    if (tenure !== null) return tenure
  }
}

const tenure = await open()
await work(tenure)
await tenure.close()
files.close()
