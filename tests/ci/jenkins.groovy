// Runs a Jenkinsfile with stand-ins for Jenkins' steps: `sh` runs for real, in the current folder. Each line that is
// printed and begins with `@` is an event; the last is the result of the build.
// Arguments: the Jenkinsfile.

import groovy.json.JsonSlurper

def result = 'SUCCESS'
def variables = new HashMap(System.getenv())
def steps = new Binding()

def worse = { now -> result = result == 'FAILURE' ? result : now }
def run = { script, capture ->
    def builder = new ProcessBuilder('sh', '-xe', '-c', script).redirectError(ProcessBuilder.Redirect.INHERIT)
    builder.environment().clear()
    builder.environment().putAll(variables)
    def process = builder.start()
    def said = process.inputStream.text
    if (!capture) { print said }
    [process.waitFor(), said]
}
def inside = { Object... given -> given[-1].call() }

steps.env = System.getenv()
steps.scm = 'scm'
['logRotator', 'disableConcurrentBuilds', 'buildDiscarder', 'cron', 'pipelineTriggers', 'attachments', 'properties', 'checkout'].each {
    steps.setVariable(it, { Object... ignored -> null })
}
['node', 'timeout'].each { steps.setVariable(it, inside) }
steps.stage = { String name, Closure body -> println "@stage ${name}"; body() }
steps.echo = { println it }
steps.readJSON = { Map given -> new JsonSlurper().parseText(given.text) }
steps.withEnv = { List pairs, Closure body ->
    pairs.each { def (name, value) = it.toString().split('=', 2); variables[name] = value }
    body()
}
steps.sh = { given ->
    def words = given instanceof Map ? given : [script: given]
    def (code, said) = run(words.script, words.returnStdout)
    if (words.returnStatus) { return code }
    if (code != 0) { throw new IllegalStateException("sh ended with ${code}") }
    said
}
steps.catchError = { Map given, Closure body ->
    try { body() } catch (IllegalStateException failed) { println "@caught ${failed.message}"; worse(given.buildResult) }
}
steps.parallel = { Map branches -> branches.values().each { it() } }
steps.junit = { Map given ->
    if (!new File(given.testResults).exists()) { throw new IllegalStateException('No test report files were found') }
    println "@junit ${given.testResults}"
}
steps.archiveArtifacts = { Map given -> println "@archive ${given.artifacts}" }
steps.stash = { Map given -> println "@stash ${given.name}" }
steps.unstash = { if (!new File("reports/${it}").exists()) { throw new IllegalStateException("No such stash ${it}") } }
steps.unstable = { println "@unstable ${it}"; worse('UNSTABLE') }
steps.error = { throw new IllegalStateException(it.toString()) }

try {
    new GroovyShell(steps).parse(new File(args[0])).run()
} catch (IllegalStateException failed) {
    println "@failed ${failed.message}"
    result = 'FAILURE'
}
println "@result ${result}"
