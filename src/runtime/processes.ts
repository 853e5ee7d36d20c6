/** This host and its processes: its name, and which of them are alive. */
import os from 'node:os'

export function hostName(): string {
  return os.hostname()
}

export function ownProcessId(): number {
  return process.pid
}

/** A process of another user cannot be asked, but it answers that it is there. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
