/**
 * Fills the small file system in which it is run with leases until the disk is full, makes room again, and prints
 * what it saw. The ballast file is what stands for other people's data.
 */
import fs from 'node:fs'
import path from 'node:path'
import { isLeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

export interface FullDiskReport {
  readonly codes: readonly string[]
  readonly granted: number
  readonly leasesKept: number
  readonly eventsKept: number
  readonly afterwards: string
}

async function acquire(service: LeaseService, name: string): Promise<string> {
  try {
    const answer = await service.acquire({
      id: systemRuntime.uuid(),
      resource: parseResource(`work:${name}`),
      holder: 'h',
      session: 's',
      ttlMs: 60_000,
      waitMs: 0,
      reason: 'x'.repeat(1_000),
    })
    return answer.kind
  } catch (error) {
    return isLeaseError(error) ? `${error.code}/${error.effect}` : String(error)
  }
}

async function main(directory: string): Promise<FullDiskReport> {
  const ballast = path.join(directory, 'ballast')
  const store = await SqliteStore.open({ path: path.join(directory, 'leases.db') })
  const service = new LeaseService({ store, runtime: systemRuntime })
  fs.writeFileSync(ballast, Buffer.alloc(200_000))
  const answers: string[] = []
  for (let index = 0; index < 60; index += 1) answers.push(await acquire(service, `item-${index}`))
  fs.rmSync(ballast)
  const { leases } = await service.list({})
  const events = await service.history({ types: ['lease.issued'] })
  const afterwards = await acquire(service, 'afterwards')
  await service.close()
  return {
    codes: [...new Set(answers)].toSorted(),
    granted: answers.filter((answer) => answer === 'granted').length,
    leasesKept: leases.length,
    eventsKept: events.length,
    afterwards,
  }
}

process.stdout.write(JSON.stringify(await main(process.argv[2] ?? '')))
