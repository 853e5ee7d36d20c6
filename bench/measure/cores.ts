/**
 * One operation in flight takes as long as two processes need to wake each other up, and that depends on whether they
 * share a core. So it is measured both ways, where the system allows to choose.
 */
import { execFileSync } from 'node:child_process'
import os from 'node:os'

export type CoreLayout = 'same core' | 'other core' | 'any core'

/** The layouts that can be had on this machine for a store with a server. */
export function coreLayouts(servers: readonly number[]): readonly CoreLayout[] {
  if (servers.length === 0 || os.availableParallelism() < 2) return ['any core']
  // Each of the two, as it will be: a container may allow but one of them.
  const canPin = ['0', '1', allCores()].every((cores) => pin([process.pid, ...servers], cores))
  return canPin ? ['same core', 'other core'] : ['any core']
}

/** Runs `work` with this process and the server where the layout puts them, and lets them go again. */
export async function inLayout<Result>(
  layout: CoreLayout,
  servers: () => readonly number[],
  work: () => Promise<Result>,
): Promise<Result> {
  if (layout === 'any core') return work()
  try {
    pin([process.pid], '0')
    pin(servers(), layout === 'same core' ? '0' : '1')
    return await work()
  } finally {
    pin([process.pid, ...servers()], allCores())
  }
}

function allCores(): string {
  return `0-${os.cpus().length - 1}`
}

function pin(pids: readonly number[], cores: string): boolean {
  try {
    for (const pid of pids) {
      execFileSync('taskset', ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' })
    }
    return true
  } catch {
    return false
  }
}
