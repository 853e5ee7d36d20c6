/** This host and its processes: its name, when this one began, and which of them are alive. */
import os from 'node:os'

export function hostName(): string {
  return os.hostname()
}

/** Wall time at the start of this process, with a fraction. */
export function processStartedAtMs(): number {
  return performance.timeOrigin
}

export function ownProcessId(): number {
  return process.pid
}

/** Whether the system keeps, with each file, who may read it. */
export function hasFileModes(): boolean {
  return process.platform !== 'win32'
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
