/** A copy of the sources and tests, with what is built and installed, in which anything may be broken. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { ROOT } from './part.ts'

const COPIED = ['src', 'test', 'sim', 'scripts', 'examples', 'docs', 'bench', 'dist', 'campaign']
const COPIED_FILES =
  /^(package(-lock)?\.json|tsconfig.*\.json|vitest.*\.ts|\.oxlintrc\.json|.*\.md)$/

export interface Ended {
  readonly status: number
  readonly output: string
}

/** A tree of its own, in which the sources may be broken. */
export class SourceCopy {
  readonly folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-museum-'))
  readonly #remove = (): void => fs.rmSync(this.folder, { recursive: true, force: true })

  constructor() {
    process.once('exit', this.#remove)
    const isSource = (file: string): boolean => path.basename(file) !== 'node_modules'
    for (const name of COPIED) {
      const options = { recursive: true, filter: isSource, preserveTimestamps: true }
      fs.cpSync(path.join(ROOT, name), path.join(this.folder, name), options)
    }
    for (const name of fs.readdirSync(ROOT).filter((file) => COPIED_FILES.test(file))) {
      fs.copyFileSync(path.join(ROOT, name), path.join(this.folder, name))
    }
    fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(this.folder, 'node_modules'))
  }

  run(program: string, args: readonly string[]): Promise<Ended> {
    const options = { cwd: this.folder, maxBuffer: 2 ** 27, env: process.env }
    return new Promise((resolve) => {
      execFile(program, args, options, (error, stdout, stderr) => {
        const status = error === null ? 0 : Number(error.code ?? 1)
        resolve({ status, output: `${stdout}${stderr}` })
      })
    })
  }

  tool(name: string, args: readonly string[]): Promise<Ended> {
    return this.run(path.join(this.folder, 'node_modules', '.bin', name), args)
  }

  close(): void {
    process.off('exit', this.#remove)
    this.#remove()
  }
}
