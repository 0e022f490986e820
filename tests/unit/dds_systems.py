"""A DDS system with two nodes, in the XML of DDS-XML: for tests of `cnc dds`."""

from __future__ import annotations

UDP = """
<ipv4_tuple>
  <destination_ip_address>192.0.2.4</destination_ip_address><dscp>46</dscp><protocol>17</protocol>
  <destination_port>7410</destination_port>
</ipv4_tuple>"""
ETHERNET = "<vlan_tag><priority_code_point>6</priority_code_point></vlan_tag>"


def system(frames: str = UDP, *, traffic: str = "", latency_ns: int = 100_000) -> str:
    """The text of the file; `frames` is what is known of them, `traffic` more of the traffic."""
    return f"""<dds xmlns="http://www.omg.org/spec/DDS-XML">
  <types><external_type_ref name="Pose"/></types>
  <domain_library name="D">
    <domain name="cell" domain_id="0">
      <register_type name="Pose" type_ref="Pose"/><topic name="pose" register_type_ref="Pose"/>
    </domain>
  </domain_library>
  <domain_participant_library name="P">
    <domain_participant name="any" domain_ref="D::cell"/>
  </domain_participant_library>
  <application_library name="A">
    <application name="arm">
      <domain_participant name="p" domain_ref="D::cell">
        <publisher name="pub"><data_writer name="w" topic_ref="pose"/></publisher>
      </domain_participant>
    </application>
    <application name="view">
      <domain_participant name="p" domain_ref="D::cell">
        <subscriber name="sub"><data_reader name="r" topic_ref="pose"/></subscriber>
      </domain_participant>
    </application>
  </application_library>
  <node_library name="N">
    <node name="t1"><mac_address>02:00:00:00:01:01</mac_address></node>
    <node name="l1"><mac_address>02:00:00:00:01:03</mac_address></node>
  </node_library>
  <deployment_library name="L">
    <deployment name="arm">
      <node node_ref="N::t1"/>
      <application_list><application application_ref="A::arm"/></application_list>
      <configuration><tsn>
        <tsn_talker name="pose" stream_name="pose" datawriter_ref="A::arm::p::pub::w">
          <data_frame_specification>{frames}</data_frame_specification>
          <traffic_specification>
            <periodicity><sec>0</sec><nanosec>1000000</nanosec></periodicity>
            <samples_per_period>1</samples_per_period>
            <max_bytes_per_sample>64</max_bytes_per_sample>
            {traffic}
            <time_aware><jitter>0</jitter></time_aware>
          </traffic_specification>
          <network_requirements>
            <num_seamless_trees>1</num_seamless_trees><max_latency>{latency_ns}</max_latency>
          </network_requirements>
        </tsn_talker>
      </tsn></configuration>
    </deployment>
    <deployment name="view">
      <node node_ref="N::l1"/>
      <application_list><application application_ref="A::view"/></application_list>
      <configuration><tsn>
        <tsn_listener name="pose" stream_name="pose" datareader_ref="A::view::p::sub::r"/>
      </tsn></configuration>
    </deployment>
  </deployment_library>
</dds>
"""
